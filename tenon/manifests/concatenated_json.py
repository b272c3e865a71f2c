"""Accepts JSON objects one after another, as ``jq '.items[]'`` prints them and kubectl reads them.

YAML needs a separator between documents. It is put on the line where an object begins, so that line numbers stay.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise

_BLANKS = re.compile(r"[ \t\r\n]*")
_SEPARATOR = "--- "


def with_separators(text: str) -> str:
    """Return the text with separators between its JSON objects; unchanged if it is anything else."""
    if not text.lstrip().startswith("{"):
        return text
    parts: list[str] = []
    decoder = json.JSONDecoder()
    at = _past_blanks(text, 0)
    while at < len(text):
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return text  # the manifest reader reports the fault
        if not isinstance(value, dict):
            return text
        following = _past_blanks(text, end)
        parts.append(text[at:following])
        at = following
    if len(parts) < 2:
        return text
    lead = text[: _past_blanks(text, 0)]
    return lead + parts[0] + "".join(_separated(before, part) for before, part in pairwise(parts))


def _separated(before: str, part: str) -> str:
    own_line = before.rstrip(" \t").endswith("\n")
    return f"{_SEPARATOR}{part}" if own_line else f"\n{_SEPARATOR}{part}"


def _past_blanks(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    return match.end() if match else at
