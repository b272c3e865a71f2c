"""Writes to each NodeClaim when a pod last came or went, so that emptiness survives a restart of the cache.

A failed write is repeated with the next one: an event during an outage is written after the outage.
"""

from __future__ import annotations

from collections.abc import Sequence

from activities.kubernetes.bounded_concurrency import bounded
from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS
from tenon.kube.claim_record import LAST_POD_EVENT_TIME
from tenon.kube.timestamps import clock_instant, format_instant
from worker.cache.changes import Change, Topic
from worker.cache.cluster import ClusterCache
from worker.controllers.base import Controller

QUIET = 10.0
"""Seconds between two writes for one node: a busy node costs no more than this."""
MAX_PENDING = 50
"""Maximum number of nodes with pods that are written at once. Their time matters only when they become empty, and empty
nodes are always written, so a large cluster needs no hundreds of writes every few seconds.
"""
CONCURRENCY = 10
"""Maximum number of writes in flight. Other writers of this process wait only for these in the request limit."""


class PodEventsController(Controller):
    """Updates status.lastPodEventTime of NodeClaims."""

    name = "nodeclaim.podevents"
    object_field = "nodeclaim"
    topics = (Topic.NODE_PODS,)
    settle = 0.0
    interval = QUIET

    def __init__(self, kube: Kube, cache: ClusterCache) -> None:
        super().__init__(cache)
        self._kube = kube
        self._unwritten: dict[str, None] = {}
        """By Node name. Those that have waited longest come first."""

    def initial(self) -> None:
        """None: there is nothing to write until a pod comes or goes."""

    async def reconcile(self, changes: Sequence[Change]) -> float | None:
        """Write the time for empty nodes, and for a few of the others."""
        nodes = list(self._unwritten | dict.fromkeys(node for _, node in changes))
        busy = [node for node in nodes if node not in self._cache.empty_nodes]
        self._unwritten = dict.fromkeys(busy[MAX_PENDING:])
        now = [node for node in nodes if node not in self._unwritten]
        await bounded(now, CONCURRENCY, self._reconcile_node)
        return 0.0 if self._unwritten else None

    async def _reconcile_node(self, node_name: str) -> None:
        node = self._cache.nodes.get(node_name)
        claim = self._cache.claim_of(node) if node is not None else None
        last_event = self._cache.last_pod_event(node_name)
        if claim is None or claim.deleting or last_event is None:
            return
        stamp = format_instant(clock_instant(last_event))
        if claim.status.get(LAST_POD_EVENT_TIME) == stamp:
            return
        status = {"status": {LAST_POD_EVENT_TIME: stamp}}
        written = self._kube.patch(NODECLAIMS, claim.name, status, subresource="status")
        if not await self.isolate(claim.name, written):  # the cache keeps the time until then
            self._unwritten[node_name] = None
