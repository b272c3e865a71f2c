"""Decides when a leader gives up its Lease because Temporal does not answer it.

It may be the only replica that is cut off, and then another replica can lead. If Temporal is unavailable for all
replicas, no replica is better off, so the lead changes more and more slowly.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from activities import loggers

log = loggers.LEADER_ELECTION

PATIENCE, MAX_PATIENCE = 60.0, 960.0
"""Seconds that a leader waits for Temporal. They double each time until Temporal answers again."""
STANDS_BACK = 60.0
"""Seconds for which a replica that gave up leaves the Lease to others."""


class TemporalIsolation:
    """Tracks whether Temporal answers this replica, and how long the replica has led without an answer."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._answered_at = clock()
        self._away_since: float | None = None
        self._led_since: float | None = None
        self._patience = PATIENCE
        self._back_until = float("-inf")

    def note(self, answers: bool) -> None:
        """Record the result of a health check of Temporal."""
        if answers:
            self._answered_at = self._clock()
            self._away_since, self._patience, self._back_until = None, PATIENCE, float("-inf")
        elif self._away_since is None:
            self._away_since = self._answered_at  # a check takes up to half a minute to fail

    def stand_by(self, leading: bool) -> bool:
        """Whether this replica must give the Lease up, or leave it to others."""
        now = self._clock()
        if not leading:
            self._led_since = None
            return now < self._back_until
        if self._led_since is None:
            self._led_since = now
        if self._away_since is None or now < max(self._away_since, self._led_since) + self._patience:
            return False
        log.warning(
            "Temporal does not answer this leader, which gives up its Lease so that another replica may lead",
            extra={"outage-seconds": round(now - self._away_since), "stand-by-seconds": STANDS_BACK},
        )
        self._back_until = now + STANDS_BACK
        self._patience = min(2 * self._patience, MAX_PATIENCE)
        return True
