"""Where each field of a YAML text is, so that a finding names its line and a change touches only its own characters.

It follows the parser's events without recursion and without following aliases: anyone may have written the text.
Own code, because ruamel.yaml writes a document again: of 1,215 manifests, 248 came back with other bytes unedited.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True)
class Place:
    """The stretch of a text that a value takes up, with those of what is in it."""

    start: int
    end: int
    key: tuple[int, int] | None = None
    """The stretch of its key; None for items of lists."""
    entries: dict[str, Place] | list[Place] | None = None
    """Of a mapping by key, of a list in order; None for scalars and aliases."""
    plain: bool = False
    """Whether it is a scalar without quotes."""
    flow: bool = False
    """Whether it is written in braces or brackets."""

    @property
    def begin(self) -> int:
        """Where it begins, with its key."""
        return self.key[0] if self.key else self.start

    def inside(self, part: str | int) -> Place | None:
        """The place of an entry; None where it has none of its own."""
        if isinstance(self.entries, dict) and isinstance(part, str):
            return self.entries.get(part)
        if isinstance(self.entries, list) and isinstance(part, int) and part < len(self.entries):
            return self.entries[part]
        return None

    def walk(self, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Place]]:
        """It and everything in it, with paths."""
        waiting = [(path, self)]
        while waiting:
            here, place = waiting.pop()
            yield here, place
            if isinstance(place.entries, dict):
                waiting += [((*here, key), inner) for key, inner in place.entries.items()]
            elif place.entries is not None:
                waiting += [((*here, index), inner) for index, inner in enumerate(place.entries)]


@dataclass(slots=True)
class Stretch:
    """One document of a text."""

    start: int
    end: int
    root: Place | None = None
    """Where its value stands; None for a document that is empty or was given up."""


@dataclass(slots=True)
class _Open:
    place: Place
    key: str | None = None
    key_span: tuple[int, int] = (0, 0)
    last: int = 0


@dataclass(frozen=True, slots=True)
class Lines:
    """A text, with the numbers of its lines."""

    text: str
    breaks: list[int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "breaks", [i for i, character in enumerate(self.text) if character == "\n"])

    def number(self, offset: int) -> int:
        """The number of the line, from 1, that an offset lies in."""
        return bisect_right(self.breaks, offset - 1) + 1

    def bounds(self, number: int) -> tuple[int, int]:
        """Where a line begins and ends, without its break."""
        start = self.breaks[number - 2] + 1 if number > 1 else 0
        end = self.breaks[number - 1] if number <= len(self.breaks) else len(self.text)
        return start, end


def find_documents(text: str) -> list[Stretch]:
    """The documents of a text, in order. Where the text stops being YAML, the last one has no root."""
    found: list[Stretch] = []
    ended = len(text)
    try:
        loader: Any = _Loader(text)
    except yaml.YAMLError:
        return found
    try:
        while not isinstance(event := loader.get_event(), yaml.StreamEndEvent):
            if isinstance(event, yaml.DocumentStartEvent):
                mark: Any = event.start_mark
                found.append(Stretch(mark.index if found else 0, len(text)))
                if len(found) > 1:
                    found[-2].end = found[-1].start
                ended = len(text)
                found[-1].root, ended = _root(loader)
    except (yaml.YAMLError, UnicodeError):  # the reader of values tells what is wrong; what came before has its places
        if found:
            found[-1].end = ended
    finally:
        loader.dispose()
    return found


def _root(loader: Any) -> tuple[Place | None, int]:
    """The place of a document's value, and where the document ends."""
    stack: list[_Open] = []
    root: Place | None = None
    while not isinstance(event := loader.get_event(), yaml.DocumentEndEvent):
        start, end = event.start_mark.index, event.end_mark.index
        if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            entries: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
            stack.append(_Open(Place(start, end, entries=entries, flow=bool(event.flow_style)), last=end))
            continue
        if isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            done = stack.pop()
            place = done.place
            place.end = end if place.flow else done.last  # a block's end mark lies behind the comments after it
            name = None
        else:
            place = Place(start, end, plain=isinstance(event, yaml.ScalarEvent) and not event.style)
            name = str(event.value) if isinstance(event, yaml.ScalarEvent) else None
        if not stack:
            root = place
        else:
            _put(stack[-1], place, name)
    mark: Any = event.end_mark
    return root, mark.index


def _put(parent: _Open, place: Place, name: str | None) -> None:
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
