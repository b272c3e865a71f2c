"""Maps each field of a YAML text to its offsets, so that findings name lines and edits change single fields.

It follows the parser's events without recursion and does not follow aliases, because the text is untrusted. It is our
own code because ruamel.yaml rewrites the document: 248 of 1,215 unedited manifests came back with other bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True)
class SourceRange:
    """The range of a text that a value occupies, with the ranges of its entries."""

    start: int
    end: int
    key: tuple[int, int] | None = None
    """Range of the key; None for list items."""
    entries: dict[str, SourceRange] | list[SourceRange] | None = None
    """By key for a mapping, in order for a list; None for scalars and aliases."""
    plain: bool = False
    """True if it is an unquoted scalar."""
    flow: bool = False
    """True if it is in flow style (braces or brackets)."""

    @property
    def begin(self) -> int:
        """Start offset, including the key."""
        return self.key[0] if self.key else self.start

    def inside(self, part: str | int) -> SourceRange | None:
        """The place of an entry, or None if the text has no separate place for it."""
        if isinstance(self.entries, dict) and isinstance(part, str):
            return self.entries.get(part)
        if isinstance(self.entries, list) and isinstance(part, int) and part < len(self.entries):
            return self.entries[part]
        return None

    def walk(self, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], SourceRange]]:
        """Yield this place and every place inside it, with paths."""
        waiting = [(path, self)]
        while waiting:
            current, place = waiting.pop()
            yield current, place
            if isinstance(place.entries, dict):
                waiting += [((*current, key), inner) for key, inner in place.entries.items()]
            elif place.entries is not None:
                waiting += [((*current, index), inner) for index, inner in enumerate(place.entries)]


@dataclass(slots=True)
class Stretch:
    """The range of one document in a text."""

    start: int
    end: int
    root: SourceRange | None = None
    """The place of the document's value; None if the document is empty or unreadable."""


@dataclass(slots=True)
class _Open:
    place: SourceRange
    key: str | None = None
    key_span: tuple[int, int] = (0, 0)
    last: int = 0


@dataclass(frozen=True, slots=True)
class Lines:
    """A text with its line numbers."""

    text: str
    breaks: list[int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "breaks", [i for i, character in enumerate(self.text) if character == "\n"])

    def number(self, offset: int) -> int:
        """The line number, from 1, of an offset."""
        return bisect_right(self.breaks, offset - 1) + 1

    def bounds(self, number: int) -> tuple[int, int]:
        """Start and end offsets of a line, without its line break."""
        start = self.breaks[number - 2] + 1 if number > 1 else 0
        end = self.breaks[number - 1] if number <= len(self.breaks) else len(self.text)
        return start, end


def find_documents(text: str) -> list[Stretch]:
    """Return the documents of a text, in order. If the text stops being valid YAML, the last one has no root."""
    stretches: list[Stretch] = []
    ended = len(text)
    try:
        loader: Any = _Loader(text)
    except yaml.YAMLError:
        return stretches
    try:
        while not isinstance(event := loader.get_event(), yaml.StreamEndEvent):
            if isinstance(event, yaml.DocumentStartEvent):
                mark: Any = event.start_mark
                stretches.append(Stretch(mark.index if stretches else 0, len(text)))
                if len(stretches) > 1:
                    stretches[-2].end = stretches[-1].start
                ended = len(text)
                stretches[-1].root, ended = _root(loader)
    except (yaml.YAMLError, UnicodeError):  # yaml_values reports the fault; keep the earlier documents
        if stretches:
            stretches[-1].end = ended
    finally:
        loader.dispose()
    return stretches


def _root(loader: Any) -> tuple[SourceRange | None, int]:
    """Return the place of a document's value and the offset where the document ends."""
    stack: list[_Open] = []
    root: SourceRange | None = None
    while not isinstance(event := loader.get_event(), yaml.DocumentEndEvent):
        start, end = event.start_mark.index, event.end_mark.index
        if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            entries: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
            stack.append(_Open(SourceRange(start, end, entries=entries, flow=bool(event.flow_style)), last=end))
            continue
        if isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            done = stack.pop()
            place = done.place
            place.end = end if place.flow else done.last  # a block's end mark comes after any comments that follow it
            name = None
        else:
            place = SourceRange(start, end, plain=isinstance(event, yaml.ScalarEvent) and not event.style)
            name = str(event.value) if isinstance(event, yaml.ScalarEvent) else None
        if not stack:
            root = place
        else:
            _put(stack[-1], place, name)
    mark: Any = event.end_mark
    return root, mark.index


def _put(parent: _Open, place: SourceRange, name: str | None) -> None:
    parent.last = max(parent.last, place.end)
    entries = parent.place.entries
    if isinstance(entries, list):
        entries.append(place)
    elif parent.key is None:
        parent.key, parent.key_span = name if name is not None else "", (place.start, place.end)
    else:
        place.key = parent.key_span
        assert entries is not None
        entries[parent.key] = place
        parent.key = None
