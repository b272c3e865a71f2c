"""Reads label selectors as people type them after ``-l``, with kubectl's syntax."""

from __future__ import annotations

import re

from tenon.errors import TenonError
from tenon.kube.selectors import LabelSelector

_KEY = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?"
_EQUALS = re.compile(rf"(?P<key>{_KEY})\s*(?P<operator>==|=|!=)\s*(?P<value>{_VALUE})")
_SET = re.compile(rf"(?P<key>{_KEY})\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_EXISTS = re.compile(rf"(?P<absent>!?)\s*(?P<key>{_KEY})")
_COMMA = re.compile(r",(?![^()]*\))")
MAX_SELECTOR = 4096
"""Longest selector in characters."""


class SelectorError(TenonError):
    """A selector that cannot be read. The message is one sentence."""


def parse_selector(text: str) -> LabelSelector:
    """Return the selector of a text such as ``team=shop,tier!=test,zone in (a, b),!spot``. An empty one selects all.

    Raises:
        SelectorError: a part cannot be read.
    """
    if len(text) > MAX_SELECTOR:
        raise SelectorError(f"A selector has at most {MAX_SELECTOR} characters, and this one has {len(text)}.")
    if not text.strip():
        return LabelSelector()
    return LabelSelector(tuple(_expression(part.strip()) for part in _COMMA.split(text)))


def _expression(text: str) -> tuple[str, str, tuple[str, ...]]:
    if match := _EQUALS.fullmatch(text):
        return match["key"], "NotIn" if match["operator"] == "!=" else "In", (match["value"],)
    if match := _SET.fullmatch(text):
        values = tuple(sorted(value.strip() for value in match["values"].split(",")))
        if all(re.fullmatch(_VALUE, value) for value in values):
            return match["key"], "In" if match["operator"] == "in" else "NotIn", values
    elif match := _EXISTS.fullmatch(text):
        return match["key"], "DoesNotExist" if match["absent"] else "Exists", ()
    raise SelectorError(f"Selector {text!r} cannot be read: write KEY=VALUE, KEY!=VALUE, 'KEY in (A,B)', KEY or !KEY.")
