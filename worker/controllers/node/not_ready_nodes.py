"""Runs the sweep early when a node stops reporting, because it may have lost its instance.

Karpenter asks EC2 every two minutes. A Schedule that fires that often costs a quiet cluster more than everything else,
so the Node's own silence, which the cache sees for free, triggers the sweep instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from temporalio.service import RPCError

from tenon.kube.records import NodeRecord
from worker.cache.changes import Change, Topic
from worker.cache.cluster import ClusterCache
from worker.controllers.base import Controller

CHECKS = (10.0, 120.0)
"""Seconds after a Node stopped being Ready at which garbage collection runs; afterwards the Schedule takes over."""
RETRY = 15.0


class NotReadyNodeController(Controller):
    """Starts a sweep when a live Node of Tenon stops being Ready."""

    name = "node.notready"
    topics = (Topic.NODE,)
    settle = 0.0

    def __init__(self, cache: ClusterCache, sweep: Callable[[], Awaitable[None]]) -> None:
        super().__init__(cache)
        self._sweep = sweep
        self._not_ready: dict[str, tuple[float, int]] = {}
        """By Node: since when it has not been Ready, and how many sweeps it has triggered."""
        self._not_before = float("-inf")

    def initial(self) -> Sequence[Change]:
        """All Nodes."""
        return [(Topic.NODE, node.name) for node in self._cache.nodes]

    async def reconcile(self, changes: Sequence[Change]) -> float | None:
        """Note which Nodes are not Ready, and sweep if one of them is due."""
        clock = asyncio.get_running_loop().time
        self._observe(changes, clock())
        next_look = self._next_check()
        if next_look is not None and max(next_look, self._not_before) <= clock():
            await self._sweep_due(clock())
            next_look = self._next_check()
        return None if next_look is None else max(0.0, max(next_look, self._not_before) - clock())

    def _observe(self, changes: Sequence[Change], now: float) -> None:
        for _, name in changes:
            node = self._cache.nodes.get(name)
            if node is not None and not node.ready and self._was_live(node):
                self._not_ready.setdefault(name, (now, 0))
            else:
                self._not_ready.pop(name, None)

    def _was_live(self, node: NodeRecord) -> bool:
        """Whether the Node is one of Tenon's initialized nodes, and its instance is not being terminated.

        A Node that is starting has its own time limits, and a Node whose instance Tenon terminates or stops falls
        silent anyway.
        """
        claim = self._cache.claim_of(node)
        return claim is not None and claim.initialized and not claim.terminating and not claim.warm

    def _next_check(self) -> float | None:
        due = (since + CHECKS[checks] for since, checks in self._not_ready.values() if checks < len(CHECKS))
        return min(due, default=None)

    async def _sweep_due(self, now: float) -> None:
        due = [
            name
            for name, (since, checks) in self._not_ready.items()
            if checks < len(CHECKS) and since + CHECKS[checks] <= now
        ]
        self._log.info("Nodes stopped reporting, and a sweep checks their instances", extra={"nodes": due[:20]})
        try:
            await self._sweep()
        except RPCError as error:
            self._log.warning("The controller failed to start a sweep", extra={"error": error.message})
            self._not_before = asyncio.get_running_loop().time() + RETRY
            return
        for name in due:
            since, checks = self._not_ready[name]
            self._not_ready[name] = (since, checks + 1)
