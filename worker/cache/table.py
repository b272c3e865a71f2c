"""The records of one resource by key, and who wants to know when one changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Generic, TypeVar

from tenon.kube.records import Record

R = TypeVar("R", bound=Record)
PORTION = 500
"""Records that are taken over at once: some milliseconds of the event loop."""
Listener = Callable[[str, R | None, R | None], None]


class Table(Generic[R]):
    """A store for a reflector. ``changed(key, before, after)`` is called for each real change; None is absence.

    A new version that says the same here, such as a Node's heartbeat, is no change: the record stays the one it was.
    """

    def __init__(self, changed: Listener[R], keeps: Callable[[R], bool] | None = None) -> None:
        """``keeps`` says which records are taken over; the others are absent, and only their keys are known."""
        self._records: dict[str, R] = {}
        self._changed = changed
        self._keeps = keeps
        self._left_out: set[str] = set()

    @property
    def left_out(self) -> frozenset[str]:
        """The keys of objects that exist and are not taken over."""
        return frozenset(self._left_out)

    async def on_replace(self, records: Mapping[str, R]) -> None:
        """Takes over a complete copy, in portions between which others have their turn; only differences are told."""
        gone = [key for key in (*self._records, *self._left_out) if key not in records]
        for number, key in enumerate((*gone, *records), start=1):
            self.on_event(key, records.get(key))
            if number % PORTION == 0:
                await asyncio.sleep(0)

    def on_event(self, key: str, record: R | None) -> None:
        """Takes over one object, or its absence."""
        before = self._records.get(key)
        self._left_out.discard(key)
        if record is not None and self._keeps is not None and not self._keeps(record):
            self._left_out.add(key)
            record = None
        if record is None:
            if before is None:
                return
            del self._records[key]
        else:
            if before is not None and (before.uid, before.resource_version) == (record.uid, record.resource_version):
                return
            if before is not None and before == record:
                return
            self._records[key] = record
        self._changed(key, before, record)

    def adopt(self, other: Table[R]) -> None:
        """Holds what another table holds now; no change is told."""
        self._records = other._records.copy()

    def get(self, key: str) -> R | None:
        """The record of a key."""
        return self._records.get(key)

    def keys(self) -> Set[str]:
        """All keys, as they are now and will be."""
        return self._records.keys()

    def __contains__(self, key: object) -> bool:
        return key in self._records

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[R]:
        """All records as they are now; changes meanwhile do not disturb the walk."""
        return iter(list(self._records.values()))
