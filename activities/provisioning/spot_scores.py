"""The Spot placement scores of NodePools, for plans and disruption."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from tenon.scheduling.model import Pool

MAX_AGE = 3 * 3600.0
"""Seconds for which scores count. The controller reads them each hour; older ones say little about EC2's capacity."""


class SpotScoreStore:
    """Keeps the scores that were last read for each NodePool."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._scores: dict[str, tuple[float, Mapping[str, int]]] = {}
        """By NodePool, with the time when they were read."""

    def replace(self, pool: str, scores: Mapping[str, int]) -> None:
        """Set the scores of a NodePool, by zone ID, as they are now."""
        self._scores[pool] = self._clock(), scores

    def keep_only(self, pools: Collection[str]) -> None:
        """Forget the scores of other NodePools."""
        self._scores = {name: entry for name, entry in self._scores.items() if name in pools}

    def scores_of(self, pool: Pool) -> Mapping[str, int]:
        """Return the scores of a NodePool by zone ID; empty if none were read, or they are too old."""
        read_at, scores = self._scores.get(pool.name, (0.0, {}))
        return scores if self._clock() < read_at + MAX_AGE else {}
