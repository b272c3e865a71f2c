"""Asks EC2 once a minute which instances fail a status check or have a scheduled event, and makes their nodes leave.

The queue of interruptions says neither (ACT-07, AWS-146, AWS-147). Only the leader asks, because all replicas would get
the same answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from activities import metrics
from activities.clock import utc_now
from activities.kubernetes.bounded_concurrency import bounded
from activities.kubernetes.client import Kube
from activities.kubernetes.events import EventPublisher
from tenon.ec2.instance_status import InstanceStatus, unhealthy
from tenon.ec2.interruption import Kind
from worker.cache.changes import Change
from worker.cache.cluster import ClusterCache
from worker.controllers.base import Controller
from worker.controllers.interrupted_nodes import InterruptedNodes

POLL_SECONDS = 60.0
AT_ONCE = 10
"""Nodes that are handled at the same time."""


class InstanceStatusController(Controller):
    """Makes the nodes of instances leave that fail a status check for two minutes, or that have a scheduled event."""

    name = "interruption.instancestatus"
    object_field = "nodeclaim"
    topics = ()

    def __init__(
        self,
        kube: Kube,
        recorder: EventPublisher,
        cache: ClusterCache,
        cluster: str,
        read: Callable[[], Iterable[InstanceStatus]],
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """``read`` asks EC2 for the instances with an impaired check or an event. It blocks."""
        super().__init__(cache)
        self._read = read
        self._now = now
        self._nodes = InterruptedNodes(kube, recorder, cluster, self._log, now)

    async def reconcile(self, changes: Sequence[Change]) -> float | None:  # noqa: ARG002
        """Ask EC2, and handle every node that is concerned."""
        found = unhealthy(await asyncio.to_thread(self._read), self._now())

        async def handle(instance_id: str) -> None:
            await self.isolate(instance_id, self._handle(instance_id, found[instance_id]))

        await bounded(sorted(found), AT_ONCE, handle)
        return POLL_SECONDS

    async def _handle(self, instance_id: str, kind: Kind) -> None:
        claim = self._cache.claim_of_instance(instance_id)
        if claim is None or self._nodes.leaves(claim):
            return
        node = self._cache.node_of(claim)
        if await self._nodes.make_leave(kind, claim, node):
            metrics.INSTANCES_UNHEALTHY.labels(kind.value).inc()
            await self._nodes.tell(kind, claim, node, leaves=True)
