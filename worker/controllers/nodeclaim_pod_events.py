"""Writes on each NodeClaim when a pod last came or went, so that emptiness survives a restart of the cache.

What could not be written is tried again with the next: an event of the time of an outage is noted after it.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime

from activities.kubernetes.bounded_concurrency import bounded
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import NODECLAIMS
from tenon.kube.timestamps import format_instant
from worker.cache.changes import Topic
from worker.cache.cluster import ClusterCache
from worker.runtime.log_rate_limit import LogRateLimiter

log = logging.getLogger("controller.nodeclaim.podevents")

QUIET = 10.0
"""Seconds between two writes about one node: a busy node costs no more than this."""
MOST_BUSY = 50
"""Nodes with pods that are written about at once. Their time begins to matter when they are empty, which is written
whatever else is; until then a large cluster is not worth hundreds of writes every few seconds."""
AT_ONCE = 10
"""Writes in flight. Other writers of this process wait for these in the limit on requests, and not for all of them."""


class PodEventsController:
    """Keeps status.lastPodEventTime."""

    def __init__(self, kube: Kube, cache: ClusterCache) -> None:
        self._kube = kube
        self._cache = cache
        self._unwritten: dict[str, None] = {}
        """By name of the Node; those that wait for longest come first."""
        self._log_limiter = LogRateLimiter()

    async def run(self) -> None:
        """Serve until cancelled."""
        with self._cache.subscribe([Topic.NODE_PODS]) as news:
            await self._cache.wait_synced()
            while True:
                changes = news.take() if self._unwritten else await news.next()
                nodes = list(self._unwritten | dict.fromkeys(node for _, node in changes))
                busy = [node for node in nodes if node not in self._cache.vacant]
                self._unwritten = dict.fromkeys(busy[MOST_BUSY:])
                now = [node for node in nodes if node not in self._unwritten]
                await bounded(now, AT_ONCE, self._write)
                await asyncio.sleep(QUIET)

    async def _write(self, node_name: str) -> None:
        node = self._cache.nodes.get(node_name)
        claim = self._cache.claim_of(node) if node is not None else None
        seen = self._cache.last_pod_event(node_name)
        if claim is None or claim.deleting or seen is None:
            return
        stamp = format_instant(datetime.fromtimestamp(seen, UTC))
        if claim.status.get("lastPodEventTime") == stamp:
            return
        try:
            await self._kube.patch(
                NODECLAIMS, claim.name, {"status": {"lastPodEventTime": stamp}}, subresource="status"
            )
        except ApiError as error:  # the cache knows it meanwhile
            self._unwritten[node_name] = None
            if self._log_limiter.count(error.status) is not None:
                log.warning("pod events not noted yet", extra={"nodeclaim": claim.name, "error": str(error)})
