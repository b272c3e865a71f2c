"""How long to wait after a failure: doubling, with chance mixed in so that clients do not return in step."""

from __future__ import annotations

import random

FIRST_SECONDS = 0.8
LAST_SECONDS = 30.0
RETRY_AFTER_CAP = 60.0


class Backoff:
    """Waiting times in seconds, from `FIRST_SECONDS` to `LAST_SECONDS`; `reset` after a healthy while."""

    def __init__(self, chance: random.Random | None = None) -> None:
        self._chance = chance or random.Random()
        self._failures = 0

    def next(self, retry_after: float = 0.0) -> float:
        """The wait after one more failure; at least what the server asked for, within a minute."""
        base = min(LAST_SECONDS, FIRST_SECONDS * 2.0**self._failures)
        self._failures = min(self._failures + 1, 10)
        wait = min(LAST_SECONDS, base * (1.0 + self._chance.random()))
        return max(wait, min(retry_after, RETRY_AFTER_CAP))

    def reset(self) -> None:
        """Begins again with the shortest wait."""
        self._failures = 0
