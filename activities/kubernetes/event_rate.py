"""Limits how often events of one kind are written: so many a second after a first burst."""

from __future__ import annotations


class EventRate:
    """A token bucket. Callers pass the time, in seconds of a clock that does not jump."""

    def __init__(self, per_second: float, burst: float) -> None:
        self._per_second = per_second
        self._burst = burst
        self._tokens = burst
        self._since: float | None = None

    def allows(self, instant: float) -> bool:
        """Take one event from the limit. Return False if none is left."""
        if self._since is not None:
            self._tokens = min(self._burst, self._tokens + (instant - self._since) * self._per_second)
        self._since = instant
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True
