"""A node that stops reporting may have lost its instance: housekeeping looks at once, not at its next turn.

Karpenter asks EC2 every two minutes. A Schedule that fires so often costs a quiet cluster more than all the rest of it,
so here the Node's own silence, which the cache sees for nothing, brings the sweep forward.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from temporalio.service import RPCError

from tenon.apis.nodeclaim import INITIALIZED, INSTANCE_TERMINATING
from tenon.kube.records import NodeRecord
from worker.cache.changes import Topic
from worker.cache.cluster import ClusterCache

log = logging.getLogger("worker.controllers.not_ready_nodes")

LOOKS = (10.0, 120.0)
"""Seconds after a Node stopped being Ready at which housekeeping looks; afterwards it is left to the Schedule."""
RETRY = 15.0


class NotReadyNodeController:
    """Calls for a sweep when a Node of ours stops being Ready."""

    def __init__(self, cache: ClusterCache, sweep: Callable[[], Awaitable[None]]) -> None:
        self._cache = cache
        self._sweep = sweep
        self._silent: dict[str, tuple[float, int]] = {}
        """By Node: since when it has not been Ready, and how often that was looked at."""

    async def run(self) -> None:
        """Serve until cancelled."""
        clock = asyncio.get_running_loop().time
        with self._cache.subscribe([Topic.NODE]) as news:
            await self._cache.wait_synced()
            self._observe(list(self._cache.nodes.keys()), clock())
            while True:
                try:
                    async with asyncio.timeout_at(self._next_look()):
                        self._observe({name for _, name in await news.next()}, clock())
                except TimeoutError:
                    await self._look(clock())

    def _observe(self, names: Iterable[str], now: float) -> None:
        """Look at these Nodes."""
        for name in names:
            node = self._cache.nodes.get(name)
            if node is not None and not node.ready and self._ran(node):
                self._silent.setdefault(name, (now, 0))
            else:
                self._silent.pop(name, None)

    def _ran(self, node: NodeRecord) -> bool:
        """Whether the Node is a live one of ours, or one that drains.

        One that still starts has its own time limits, and one falls silent because Tenon ends its instance.
        """
        claim = self._cache.claim_of(node)
        if claim is None or claim.condition(INSTANCE_TERMINATING).get("status") == "True":
            return False
        return claim.condition(INITIALIZED).get("status") == "True"

    def _next_look(self) -> float | None:
        return min((since + LOOKS[looks] for since, looks in self._silent.values() if looks < len(LOOKS)), default=None)

    async def _look(self, now: float) -> None:
        due = [
            name for name, (since, looks) in self._silent.items() if looks < len(LOOKS) and since + LOOKS[looks] <= now
        ]
        log.info("nodes stopped reporting: looking for their instances", extra={"nodes": due[:20]})
        try:
            await self._sweep()
        except RPCError as error:
            log.warning("housekeeping could not be called", extra={"error": error.message})
            await asyncio.sleep(RETRY)
            return
        for name in due:
            since, looks = self._silent[name]
            self._silent[name] = (since, looks + 1)
