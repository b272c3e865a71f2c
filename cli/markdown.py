"""Prints Tenon's pages, which are Markdown. The reasons and messages in them are of other people, and stay as they are.

Temporal's UI shows the same pages, so their texts are not escaped where they are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console
from rich.markdown import Markdown

_RULES = ("heading", "list", "newline", "backticks", "emphasis")
"""What Tenon writes. What else Markdown knows is free text: HTML, links, escapes, a single star."""
_BEFORE_BOLD = ("", "Stage: ")
"""Where Tenon writes bold text: at the start of a line, and in the list of facts."""


class _Page(Markdown):
    def __init__(self, markdown: str) -> None:
        super().__init__("", hyperlinks=False)
        self.parsed = MarkdownIt("zero").enable(_RULES).parse(markdown)
        for token in self.parsed:
            token.children = list(_own_markup(token.children)) if token.children else token.children


def print_markdown(console: Console, markdown: str) -> None:
    """Print a page of Tenon."""
    console.print(_Page(markdown))


def _own_markup(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield the parts of a line, in which emphasis that is not Tenon's own is text again."""
    before = ""
    is_own: list[bool] = []
    for token in tokens:
        if token.tag in ("em", "strong"):
            if token.nesting == 1:
                is_own.append(token.markup == "**" and before in _BEFORE_BOLD)
                keeps = is_own[-1]
            else:
                keeps = is_own.pop()
            yield token if keeps else Token("text", "", 0, content=token.markup)
        else:
            yield token
        before += token.content
