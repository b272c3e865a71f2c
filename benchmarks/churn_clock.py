"""A virtual clock: what happens at which second, in order, without waiting."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count

START = datetime(2026, 11, 21, tzinfo=UTC)


class VirtualClock:
    """Runs actions at their times. Actions of the same time run in the order in which they were added."""

    def __init__(self) -> None:
        self.now = 0.0
        """In seconds since `START`."""
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    def number(self) -> int:
        """Return a number that is larger than all before, for names."""
        return next(self._order)

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Run an action at a time."""
        heapq.heappush(self._queue, (time, self.number(), action))

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Run an action in some seconds."""
        self.at(self.now + seconds, action)

    def instant(self, seconds: float | None = None) -> datetime:
        """Return the time of day of a second, by default of now."""
        return START + timedelta(seconds=self.now if seconds is None else seconds)

    def text(self) -> str:
        """Return the time since the start as hours, minutes and seconds."""
        seconds = int(self.now)
        return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"

    def run(self, until: float, passing: Callable[[float], None]) -> None:
        """Run all actions up to a time. ``passing`` is called with the seconds that pass before each."""
        while self._queue and self._queue[0][0] <= until:
            time, _, action = heapq.heappop(self._queue)
            passing(time - self.now)
            self.now = time
            action()
        passing(until - self.now)
        self.now = until
