"""A line that a tab indents, with the spaces that were meant: told only where no other indentation could be."""

from __future__ import annotations

import json
import re

from tenon.manifests.source_map import Lines
from tenon.manifests.yaml_scalars import UnreadableError
from tenon.manifests.yaml_values import read_documents

_LARGEST = 100_000
"""Characters of a document in which guesses are tried."""
_INDENTED = re.compile(r"[ \t]*\t[ \t]*(?=\S)")
_LEVELS = re.compile(r"^ *(?:- +)*(?=\S)", re.MULTILINE)
_NEXT = re.compile(r"^(---|\.\.\.)(\s|$)", re.MULTILINE)


def without_tab(lines: Lines, start: int, number: int) -> str | None:
    """The line with spaces; None where it is not indented by a tab, or could be indented in several ways.

    Args:
        lines: the whole text.
        start: where the document begins that the line belongs to.
        number: the line's.
    """
    if number > len(lines.breaks) + 1:
        return None  # what the parser misses at the end, it misses in the line after the last one
    first, last = lines.bounds(number)
    tabbed = _INDENTED.match(lines.text, first, last)
    later = _NEXT.search(lines.text, last)
    end = later.start() if later else len(lines.text)
    if tabbed is None or end - start > _LARGEST:
        return None
    before, rest = lines.text[start:first], lines.text[tabbed.end() : last].rstrip()
    behind = lines.text[last:end]
    levels = {len(found[0]) for found in _LEVELS.finditer(before + behind)} - {0}
    fitting: dict[str, int] = {}
    for level in sorted(levels)[:20]:
        found = [value for _, value in read_documents(f"{before}{' ' * level}{rest}{behind}") if value is not None]
        if len(found) == 1 and not isinstance(found[0], UnreadableError):
            fitting.setdefault(json.dumps(found[0]), level)
    if len(fitting) != 1:
        return None
    return " " * next(iter(fitting.values())) + rest
