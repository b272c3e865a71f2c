"""Suggests spaces for a line that is indented with a tab, but only if exactly one indentation fits."""

from __future__ import annotations

import json
import re

from tenon.manifests.source_map import Lines
from tenon.manifests.yaml_scalars import UnreadableError
from tenon.manifests.yaml_values import read_documents

_MAX_SIZE = 100_000
"""Maximum size, in characters, of a document in which indentations are tried."""
_INDENTED = re.compile(r"[ \t]*\t[ \t]*(?=\S)")
_LEVELS = re.compile(r"^ *(?:- +)*(?=\S)", re.MULTILINE)
_NEXT = re.compile(r"^(---|\.\.\.)(\s|$)", re.MULTILINE)


def without_tab(lines: Lines, start: int, number: int) -> str | None:
    """Return the line indented with spaces. Return None if no tab indents it or if several indentations fit.

    Args:
        lines: the whole text.
        start: offset where the line's document begins.
        number: the line number, from 1.
    """
    if number > len(lines.breaks) + 1:
        return None  # the parser reports a missing end on the line after the last one
    first, last = lines.bounds(number)
    tabbed = _INDENTED.match(lines.text, first, last)
    later = _NEXT.search(lines.text, last)
    end = later.start() if later else len(lines.text)
    if tabbed is None or end - start > _MAX_SIZE:
        return None
    before, rest = lines.text[start:first], lines.text[tabbed.end() : last].rstrip()
    behind = lines.text[last:end]
    levels = {len(match[0]) for match in _LEVELS.finditer(before + behind)} - {0}
    fitting: dict[str, int] = {}
    for level in sorted(levels)[:20]:
        match = [value for _, value in read_documents(f"{before}{' ' * level}{rest}{behind}") if value is not None]
        if len(match) == 1 and not isinstance(match[0], UnreadableError):
            fitting.setdefault(json.dumps(match[0]), level)
    if len(fitting) != 1:
        return None
    return " " * next(iter(fitting.values())) + rest
