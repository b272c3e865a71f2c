"""Sweeps more often than the Schedule while something changes in the cluster, or a sweep has left work.

Temporal Cloud bills each sweep. In a cluster where no NodeClaim, Node or EC2NodeClass comes, changes or goes, new
garbage can come only from outside, so the Schedule alone, which is slower, is enough.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from worker.cache.changes import Change, Topic
from worker.cache.cluster import ClusterCache
from worker.controllers.base import Controller

QUIET_AFTER = timedelta(minutes=70)
"""How long nothing must have changed. This covers the longest grace period of a sweep, and a sweep after it."""
QUIET_FACTOR = 3
QUIET_INTERVAL = timedelta(minutes=30)
"""The longest interval of the sweeps in a quiet cluster, unless the setting is longer: an alert comes after an hour."""


def quiet_interval(every: timedelta) -> timedelta:
    """The interval of the sweeps in a quiet cluster, if the setting is ``every``."""
    return max(every, min(every * QUIET_FACTOR, QUIET_INTERVAL))


class SweepController(Controller):
    """Starts a sweep after each interval, unless the cluster is quiet."""

    name = "garbagecollection.sweeps"
    topics = (Topic.CLAIM, Topic.VANISHED_CLAIM, Topic.NODE, Topic.NODECLASS)

    def __init__(
        self,
        cache: ClusterCache,
        every: timedelta,
        sweep: Callable[[], Awaitable[None]],
        has_left_work: Callable[[], Awaitable[bool]],
    ) -> None:
        """``has_left_work``: whether the last sweep left something to the next one."""
        super().__init__(cache)
        self._every = every.total_seconds()
        self._sweep = sweep
        self._has_left_work = has_left_work
        self._changed_at = float("-inf")
        self._due = float("-inf")

    async def run(self) -> None:
        """Reconcile until cancelled. A leader sweeps when it begins (`garbage_collection_schedule`)."""
        now = asyncio.get_running_loop().time()
        self._changed_at, self._due = now, now + self._every
        await super().run()

    async def reconcile(self, changes: Sequence[Change]) -> float | None:
        """Note that something changed, and sweep if it is time."""
        now = asyncio.get_running_loop().time()
        if changes:
            self._changed_at = now
        if now >= self._due:
            if now - self._changed_at < QUIET_AFTER.total_seconds() or await self._has_left_work():
                await self._sweep()
            self._due = now + self._every
        return max(0.0, self._due - now)
