"""Calls that wait until an operator releases them, to stop a client exactly between a call and its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event, Lock
from typing import ClassVar

from pydantic import ConfigDict

CLIENT_POLL_SECONDS = 0.1
"""Seconds between two checks of a held call whether its client is still connected."""


@dataclass
class Hold:
    """Makes the next ``count`` calls of an action wait: before they take effect, or after it with the answer
    withheld. Dry runs never wait, because they have no effect to stop before or after.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    action: str = "*"
    after_effect: bool = False
    count: int | None = 1

    def __post_init__(self) -> None:
        if self.count is not None and self.count < 1:
            raise ValueError(f"count {self.count} is out of bounds: give 1 or more, or null for no limit")


class HoldTable:
    """The holds, and the calls that wait now."""

    def __init__(self) -> None:
        self._holds: list[Hold] = []
        self._released = Event()
        self._waiting = 0
        self._lock = Lock()

    def add(self, hold: Hold) -> None:
        with self._lock:
            self._holds.append(hold)

    def next(self, action: str, *, dry_run: bool = False) -> Hold | None:
        """The hold that applies to this call. Uses up one of its count."""
        if dry_run:
            return None
        with self._lock:
            for hold in self._holds:
                if hold.action in ("*", action):
                    if hold.count is not None:
                        hold.count -= 1
                        if hold.count == 0:
                            self._holds.remove(hold)
                    return hold
        return None

    def wait(self, function: Callable[[], bool]) -> bool:
        """Block the calling thread until the next release. Returns False if the client is ``function`` before that."""
        with self._lock:
            released = self._released
            self._waiting += 1
        try:
            while not released.wait(CLIENT_POLL_SECONDS):
                if function():
                    return False
            return True
        finally:
            with self._lock:
                self._waiting -= 1

    def waiting(self) -> int:
        """The number of calls that are waiting now."""
        return self._waiting

    def release(self) -> None:
        """Release every call, and end all holds."""
        with self._lock:
            self._holds.clear()
            self._released.set()
            self._released = Event()
