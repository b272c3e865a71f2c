"""Calls that wait until an operator lets them go, to stop a client exactly between a call and its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event, Lock

CLIENT_LOOK_SECONDS = 0.1
"""How often a held call looks whether its client is still there."""


@dataclass
class Hold:
    """The next ``count`` calls of an action wait: before they take effect, or after it with the answer withheld."""

    action: str = "*"
    after_effect: bool = False
    count: int | None = 1

    def __post_init__(self) -> None:
        if self.count is not None and self.count < 1:
            raise ValueError(f"count {self.count} makes no sense: give 1 or more, or leave it null for always")


class HoldTable:
    """Which calls are to wait, and those that wait now."""

    def __init__(self) -> None:
        self._holds: list[Hold] = []
        self._released = Event()
        self._waiting = 0
        self._lock = Lock()

    def add(self, hold: Hold) -> None:
        with self._lock:
            self._holds.append(hold)

    def next(self, action: str) -> Hold | None:
        """The hold that this call meets, used up by one."""
        with self._lock:
            for hold in self._holds:
                if hold.action in ("*", action):
                    if hold.count is not None:
                        hold.count -= 1
                        if hold.count == 0:
                            self._holds.remove(hold)
                    return hold
        return None

    def wait(self, gone: Callable[[], bool]) -> bool:
        """Block the calling thread until the next release; False when its client is ``gone`` before that."""
        with self._lock:
            released = self._released
            self._waiting += 1
        try:
            while not released.wait(CLIENT_LOOK_SECONDS):
                if gone():
                    return False
            return True
        finally:
            with self._lock:
                self._waiting -= 1

    def waiting(self) -> int:
        """How many calls wait now."""
        return self._waiting

    def release(self) -> None:
        """Lets every call go; none is held after that."""
        with self._lock:
            self._holds.clear()
            self._released.set()
            self._released = Event()
