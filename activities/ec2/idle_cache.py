"""A cache that drops what has not been used for a while, when something new comes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class IdleCache(Generic[Key, Value]):
    """Keeps a limited number of values. Not thread-safe.

    Nothing is dropped as long as nothing new comes, so a cluster that was quiet finds everything as it left it.
    """

    def __init__(self, seconds: float, most: int, clock: Callable[[], float]) -> None:
        """``seconds``: how long an unused value stays at least, unless there are more values than ``most``."""
        self._seconds = seconds
        self._most = most
        self._clock = clock
        self._entries: dict[Key, tuple[float, Value]] = {}
        """The values with the times of their last uses, the most recent last."""

    def __len__(self) -> int:
        """The number of values."""
        return len(self._entries)

    def get(self, key: Key) -> Value | None:
        """The value, or None if there is none. Counts as a use."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        self._entries[key] = self._clock(), entry[1]
        return entry[1]

    def put(self, key: Key, value: Value) -> Value:
        """Keep the value and return it."""
        now = self._clock()
        self._entries.pop(key, None)
        fresh = [entry for entry in self._entries.items() if entry[1][0] > now - self._seconds]
        self._entries = dict(fresh[max(0, len(fresh) + 1 - self._most) :])
        self._entries[key] = now, value
        return value
