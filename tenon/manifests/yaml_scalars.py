"""Parses YAML scalars as Kubernetes does: no timestamps, no sexagesimal numbers, nothing that JSON cannot hold."""

from __future__ import annotations

import re
from typing import Any

from tenon.errors import TenonError

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE", "yes", "Yes", "YES", "y", "Y", "on", "On", "ON"})
_FALSE = frozenset({"false", "False", "FALSE", "no", "No", "NO", "n", "N", "off", "Off", "OFF"})
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_BASED = re.compile(r"[-+]?0([xX][0-9a-fA-F]+|[bB][01]+|[oO]?[0-7]+)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NO_NUMBER = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_MAX_DIGITS = 400
_TAG = "tag:yaml.org,2002:"


class UnreadableDocumentError(TenonError):
    """A document that cannot be read. The message is one sentence."""


def check_tag(tag: str | None, expected: str, line: int) -> None:
    """Refuse any tag except the default one of a list or mapping."""
    if tag not in (None, "!", _TAG + expected):
        raise UnreadableDocumentError(f"line {line}: tag {tag!r} is not known in manifests")


def scalar_value(event: Any, line: int) -> Any:
    """Return the value of a scalar event.

    Raises:
        UnreadableDocumentError: a manifest cannot hold the value.
    """
    text, tag = event.value, event.tag
    if tag in ("!", _TAG + "str") or (tag is None and not event.implicit[0]):
        return text
    if tag is not None and tag not in {_TAG + name for name in ("int", "float", "bool", "null")}:
        raise UnreadableDocumentError(f"line {line}: tag {tag!r} is not known in manifests")
    value = plain_value(text, line)
    if tag is not None and isinstance(value, str):
        raise UnreadableDocumentError(f"line {line}: {text[:80]!r} is not a value of tag {tag!r}")
    return value


def plain_value(text: str, line: int = 0) -> Any:
    """Return the value of an unquoted text.

    Raises:
        UnreadableDocumentError: a manifest cannot hold the value.
    """
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if text[0] not in "+-.0123456789":
        return text
    if _NO_NUMBER.fullmatch(text):
        raise UnreadableDocumentError(f"line {line}: {text} is not a number that a manifest can contain")
    bare = text.replace("_", "")
    try:
        if _INTEGER.fullmatch(bare) and len(text) <= _MAX_DIGITS:
            return int(bare)
        if _BASED.fullmatch(bare) and len(text) <= _MAX_DIGITS:
            octal = bare.lstrip("+-")[1:].isdigit()
            return int(bare, 8 if octal else 0)
        if _FLOAT.fullmatch(bare):
            number = float(bare) if len(text) <= _MAX_DIGITS else float("inf")
            if number in (float("inf"), float("-inf")):
                raise UnreadableDocumentError(f"line {line}: {text[:80]} is too large for any field")
            return number
    except ValueError:
        return text
    return text
