"""Writes entries of the record as lines of JSON, and reads them back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from pydantic import TypeAdapter, ValidationError

from tenon.errors import TenonError
from tenon.record.entries import Entry

MAX_LINE = 1_000_000
"""Bytes. A longer line is not an entry."""

REMEMBERED = 100_000
"""How many IDs `distinct` remembers, about 20 MB."""


@cache
def _entries() -> TypeAdapter[Entry]:
    return TypeAdapter(Entry)


def line_of(entry: Entry) -> str:
    """Return the entry as one line of JSON, without its end."""
    return entry.model_dump_json(exclude_none=True)


class UnreadableLineError(TenonError):
    """A line that is no entry of the record."""


def entry_of(line: str | bytes) -> Entry:
    """Read one line.

    Raises:
        UnreadableLineError: it is no entry, is longer than `MAX_LINE`, or is of a kind that this version does not know.
    """
    if len(line) > MAX_LINE:
        raise UnreadableLineError(f"the line has {len(line)} bytes; an entry has at most {MAX_LINE}")
    try:
        return _entries().validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UnreadableLineError(f"{place}: {first['msg']}" if place else first["msg"]) from None


def distinct(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Leave out entries whose ID came before: an activity that is tried again records them twice.

    It remembers the last `REMEMBERED` IDs, because a retry comes soon.
    """
    read_ids: dict[str, None] = {}
    for entry in entries:
        if entry.id not in read_ids:
            read_ids[entry.id] = None
            if len(read_ids) > REMEMBERED:
                del read_ids[next(iter(read_ids))]
            yield entry
