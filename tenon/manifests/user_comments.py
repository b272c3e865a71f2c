"""Finds the comments that users wrote in a manifest, and the field that each one describes.

It is our own code because ruamel.yaml attaches a comment to the token before it, not to the field that it describes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from tenon.manifests.documents import Item
from tenon.manifests.paths import Path


@dataclass(frozen=True, slots=True)
class UserComment:
    """A comment. ``path`` is None if it comes after everything else."""

    path: Path | None
    text: str
    inline: bool
    """True if the comment is on the same line as the field."""


def find_comments(item: Item) -> Iterator[UserComment]:
    """Yield the comments in the text of an object, in order."""
    if item.place is None:
        return
    document, lines = item.document, item.document.lines
    text = lines.text
    whole = item.place is document.root
    start, end = (document.start, document.end) if whole else (item.place.start, item.place.end)
    written = [(path, place) for path, place in item.place.walk() if path]
    texts = sorted([(p.start, p.end) for _, p in written if p.entries is None] + [p.key for _, p in written if p.key])
    fields = sorted((place.begin, len(path), path) for path, place in written)
    begins = [begin for begin, _, _ in fields]
    offset = start
    while (offset := text.find("#", offset, end)) >= 0:
        index = bisect_right(texts, (offset, len(text))) - 1
        if index >= 0 and offset < texts[index][1]:
            offset = texts[index][1]
            continue
        first, last = lines.bounds(lines.number(offset))
        if offset > first and text[offset - 1] not in " \t":
            offset += 1
            continue
        comment = text[offset + 1 : last].strip()
        at = bisect_left(begins, first)
        if at < len(fields) and begins[at] < offset:
            yield UserComment(fields[bisect_right(begins, begins[at]) - 1][2], comment, True)
        else:
            yield UserComment(fields[at][2] if at < len(fields) else None, comment, False)
        offset = last
