"""Whatever happens to a node's workflow, no node stays closed: the leader opens those that are closed for too long.

A node that was bought for pods is closed to others until its workflow has bound them. While Temporal is away, while a
binding is refused again and again, or when a worker of another version serves the step, nobody else would open it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.uncordon import open_named
from tenon.apis import labels
from worker.cache.changes import Topic
from worker.cache.cluster import ClusterCache

log = logging.getLogger("worker.controllers.uncordon")

LONGEST = 90.0
"""Seconds that a node may be closed. Its own workflow takes a few; opening it early costs no more than a poorer fit."""
RETRY = 15.0


class UncordonController:
    """Opens nodes by the cache and the API server alone."""

    def __init__(self, kube: Kube, cache: ClusterCache) -> None:
        self._kube = kube
        self._cache = cache
        self._closed: dict[str, float] = {}
        """By Node: since when it was seen closed; an attempt that failed moves it on."""

    async def run(self) -> None:
        """Serve until cancelled."""
        clock = asyncio.get_running_loop().time
        with self._cache.subscribe([Topic.NODE]) as news:
            await self._cache.wait_synced()
            self._observe(list(self._cache.nodes.keys()), clock())
            while True:
                try:
                    async with asyncio.timeout_at(min(self._closed.values()) + LONGEST if self._closed else None):
                        self._observe({name for _, name in await news.next()}, clock())
                except TimeoutError:
                    await self._open(clock())

    def _observe(self, names: Iterable[str], now: float) -> None:
        """Look at these Nodes."""
        for name in names:
            node = self._cache.nodes.get(name)
            if node is not None and node.annotations.get(labels.CLOSED) == "true":
                self._closed.setdefault(name, now)
            else:
                self._closed.pop(name, None)

    async def _open(self, now: float) -> None:
        for name in [name for name, since in self._closed.items() if since + LONGEST <= now]:
            try:
                if await open_named(self._kube, name):
                    log.warning("a node was closed for too long and is open now", extra={"Node": name})
                del self._closed[name]
            except ApiError as error:
                log.warning("a node could not be opened", extra={"Node": name, "error": str(error)})
                self._closed[name] = now - LONGEST + RETRY
