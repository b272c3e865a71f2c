"""Uncordons nodes that stayed reserved for too long, whatever happens to their workflows.

A node that was bought for pods is closed to other pods until its workflow has bound them. If Temporal is unavailable,
if a binding is refused repeatedly, or if a worker of another version runs the step, nothing else would open the node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from activities.kubernetes.client import Kube
from activities.kubernetes.uncordon import uncordon_by_name
from tenon.apis import labels
from worker.cache.changes import Change, Topic
from worker.cache.cluster import ClusterCache
from worker.controllers.base import ObjectController

MAX_CORDON = 90.0
"""Maximum number of seconds that a node may be closed. Its own workflow needs a few. Opening a node early only costs a
poorer fit.
"""
RETRY = 15.0


class UncordonController(ObjectController):
    """Opens nodes using only the cache and the API server."""

    name = "node.uncordon"
    object_field = "node"
    topics = (Topic.NODE,)
    settle = 0.0
    backoff = (RETRY, RETRY)

    def __init__(self, kube: Kube, cache: ClusterCache) -> None:
        super().__init__(cache)
        self._kube = kube
        self._closed_since: dict[str, float] = {}

    def initial(self) -> Sequence[Change]:
        """All Nodes."""
        return [(Topic.NODE, node.name) for node in self._cache.nodes]

    def needs_reconcile(self, name: str) -> bool:
        """Whether the Node is closed."""
        node = self._cache.nodes.get(name)
        closed = node is not None and node.annotations.get(labels.STARTUP_CORDON) == "true"
        if not closed:
            self._closed_since.pop(name, None)
        return closed

    async def reconcile_object(self, name: str) -> float | None:
        """Open the Node if it has been closed for too long."""
        now = asyncio.get_running_loop().time()
        opens_at = self._closed_since.setdefault(name, now) + MAX_CORDON
        if opens_at > now:
            return opens_at - now
        if await uncordon_by_name(self._kube, name):
            self._log.warning("A node was closed for too long, and the controller opened it", extra={"node": name})
        self._closed_since.pop(name, None)
        return None
