"""Exponential backoff with jitter, so that clients do not retry in step."""

from __future__ import annotations

import random

FIRST_SECONDS = 0.8
LAST_SECONDS = 30.0
RETRY_AFTER_CAP = 60.0


class Backoff:
    """Waiting times in seconds, from `FIRST_SECONDS` to `LAST_SECONDS`. Call `reset` after a healthy period."""

    def __init__(self, chance: random.Random | None = None) -> None:
        self._chance = chance or random.Random()
        self._failures = 0

    def next(self, retry_after: float = 0.0) -> float:
        """The wait after one more failure. At least ``retry_after``, which the server asked for, up to
        `RETRY_AFTER_CAP`.
        """
        base = min(LAST_SECONDS, FIRST_SECONDS * 2.0**self._failures)
        self._failures = min(self._failures + 1, 10)
        wait = min(LAST_SECONDS, base * (1.0 + self._chance.random()))
        return max(wait, min(retry_after, RETRY_AFTER_CAP))

    def reset(self) -> None:
        """Start again with the shortest wait."""
        self._failures = 0
