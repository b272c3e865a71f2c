"""Builds HTML in which every text is escaped, because anyone in the cluster writes names, labels and messages.

Only `tag` and `joined` make `Markup`, and whatever is not `Markup` is escaped. So a text that somebody forgets about is
shown as it is written, and never becomes a part of the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from typing import TypeAlias

_INVISIBLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""Control characters, and those that reverse or hide the text around them: a name could pretend to be another one."""
_SURROGATES = re.compile(r"[\ud800-\udfff]")
"""Half a character each, which no document can have."""
_NOTHING_BUT_STYLE = "default-src 'none'; style-src 'unsafe-inline'"
"""Tells browsers to run no script and to load nothing, whatever a page has."""
_VOID = frozenset({"br", "input", "meta"})


class Markup(str):
    """HTML. Nothing but this module makes it."""

    __slots__ = ()


Content: TypeAlias = "str | Iterable[Content] | None"
"""What an element contains: texts, elements, or lists of them; None is nothing."""


def escaped(text: str) -> Markup:
    """Return a text as HTML, with invisible characters replaced."""
    return Markup(escape(_INVISIBLE.sub("\ufffd", text)))


def joined(*content: Content) -> Markup:
    """Return texts and elements one after the other."""
    return Markup("".join(_parts(content)))


def tag(name: str, /, *content: Content, **attributes: str | float | bool | None) -> Markup:
    """Return an element.

    Args:
        name: of the element.
        content: what it contains.
        attributes: by name. An underscore at the end, as in ``class_``, is left out, and others become hyphens. True is
            an attribute without a value, and None or False is no attribute.
    """
    texts = [
        f" {key}" if value is True else f' {key}="{escaped(_text(value))}"'
        for key, value in ((key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items())
        if value is not None and value is not False
    ]
    start = f"<{name}{''.join(texts)}>"
    return Markup(start if name in _VOID else f"{start}{''.join(_parts(content))}</{name}>")


def with_code(text: str) -> Markup:
    """Return a text in which what stands between two backticks is code."""
    return joined(tag("code", part) if number % 2 else part for number, part in enumerate(text.split("`")))


def editor(text: str, **attributes: str | float | bool | None) -> Markup:
    """Return a field for a long text. Invisible characters stay, because browsers send back what the field holds."""
    first_line_break = "\n"  # browsers leave it out
    return tag("textarea", Markup(first_line_break + escape(_SURROGATES.sub("\ufffd", text))), **attributes)


def page(title: str, style: str, *content: Content) -> str:
    """Return a whole document.

    Args:
        title: of the document.
        style: its CSS, which is a constant of this program and never a text of a user.
        content: of its body.
    """
    head = joined(
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_NOTHING_BUT_STYLE),
        tag("meta", name="viewport", content="width=device-width,initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        Markup(f"<style>{style}</style>"),
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', *content), lang='en')}\n"


def _text(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _parts(content: Iterable[Content]) -> Iterable[str]:
    for part in content:
        if isinstance(part, Markup):
            yield part
        elif isinstance(part, str):
            yield escaped(part)
        elif part is not None:
            yield from _parts(part)
