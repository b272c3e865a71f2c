"""The records of one resource by key, with a listener for changes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Generic, TypeVar

from tenon.kube.records import CachedRecord

R = TypeVar("R", bound=CachedRecord)
PORTION = 500
"""Records that are stored without yielding to the event loop: some milliseconds."""
Listener = Callable[[str, R | None, R | None], None]


class Table(Generic[R]):
    """A store for a reflector. ``changed(key, before, after)`` is called for each real change; None means absent.

    A new version whose record is equal, such as after a Node's heartbeat, is not a change: the old record stays.
    """

    def __init__(self, changed: Listener[R], keeps: Callable[[R], bool] | None = None) -> None:
        """``keeps`` selects the records to store. Of the others only the keys are known."""
        self._records: dict[str, R] = {}
        self._changed = changed
        self._keeps = keeps
        self._left_out: set[str] = set()
        self._observers: list[Listener[R]] = []

    @contextlib.contextmanager
    def observed(self, observer: Listener[R]) -> Iterator[None]:
        """Call ``observer`` too for each real change, while the context is open. A copy has no observers."""
        self._observers.append(observer)
        try:
            yield
        finally:
            self._observers.remove(observer)

    @property
    def left_out(self) -> frozenset[str]:
        """The keys of objects that exist but are not stored."""
        return frozenset(self._left_out)

    async def on_replace(self, records: Mapping[str, R]) -> None:
        """Store a complete copy, in portions that let other tasks run in between. Only differences are reported."""
        removed = [key for key in (*self._records, *self._left_out) if key not in records]
        for number, key in enumerate((*removed, *records), start=1):
            self.on_event(key, records.get(key))
            if number % PORTION == 0:
                await asyncio.sleep(0)

    def on_event(self, key: str, record: R | None) -> None:
        """Store one object, or remove it if ``record`` is None."""
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
        for observer in self._observers:
            observer(key, before, record)

    def adopt(self, other: Table[R]) -> None:
        """Take over another table's current records. From now on this table reports no changes."""
        self._records = other._records.copy()
        self.disconnect()

    def disconnect(self) -> None:
        """Report no more changes, and forget the listener."""
        self._changed = _ignore

    def get(self, key: str) -> R | None:
        """The record of a key. None if it does not exist."""
        return self._records.get(key)

    def keys(self) -> Set[str]:
        """A live view of all keys."""
        return self._records.keys()

    def __contains__(self, key: object) -> bool:
        return key in self._records

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[R]:
        """Iterate over a copy, so that changes during the iteration do no harm."""
        return iter(list(self._records.values()))


def _ignore(_key: str, _before: object, _after: object) -> None:
    """The listener of a table that is a copy."""
