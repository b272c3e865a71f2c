"""Removes startup cordons that stay for too long, whatever happens to the workflows of their nodes.

A node that was bought for pods is cordoned until its workflow has bound them. If Temporal is unavailable, if a binding
is refused repeatedly, or if a worker of another version runs the step, nothing else would remove the cordon. The
workflow checks a node that does not become ready only once a minute, so this module removes the cordon in time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from activities.kubernetes.client import Kube
from activities.node.startup_cordon import remove_startup_cordon_by_name
from tenon.apis import labels
from tenon.node.startup_cordon import MAX_STARTUP_CORDON
from worker.cache.changes import Change, Topic
from worker.cache.cluster import ClusterCache
from worker.controllers.base import ObjectController

BACKSTOP_SECONDS = 90.0
"""The seconds after which this controller removes the startup cordon of an initialized node. The node's own workflow
needs a few seconds. Removing it early only costs a poorer fit.
"""
RETRY = 15.0


class StartupCordonController(ObjectController):
    """Removes startup cordons using only the cache and the API server."""

    name = "node.uncordon"
    object_field = "node"
    topics = (Topic.NODE,)
    settle = 0.0
    backoff = (RETRY, RETRY)

    def __init__(self, kube: Kube, cache: ClusterCache) -> None:
        super().__init__(cache)
        self._kube = kube
        self._cordoned_since: dict[str, float] = {}

    def initial(self) -> Sequence[Change]:
        """All Nodes."""
        return [(Topic.NODE, node.name) for node in self._cache.nodes]

    def needs_reconcile(self, name: str) -> bool:
        """Whether the Node has a startup cordon."""
        node = self._cache.nodes.get(name)
        cordoned = node is not None and node.annotations.get(labels.STARTUP_CORDON) == "true"
        if not cordoned:
            self._cordoned_since.pop(name, None)
        return cordoned

    async def reconcile_object(self, name: str) -> float | None:
        """Remove the startup cordon if it has been there for too long."""
        now = asyncio.get_running_loop().time()
        node = self._cache.nodes.get(name)
        initialized = node is not None and node.labels.get(labels.INITIALIZED) == "true"
        longest = BACKSTOP_SECONDS if initialized else MAX_STARTUP_CORDON.total_seconds()
        removed_at = self._cordoned_since.setdefault(name, now) + longest
        if removed_at > now:
            return removed_at - now
        if await remove_startup_cordon_by_name(self._kube, name):
            message = "A node kept its startup cordon for too long, and the controller removed it"
            self._log.log(logging.WARNING if initialized else logging.INFO, message, extra={"node": name})
        self._cordoned_since.pop(name, None)
        return None
