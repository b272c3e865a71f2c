"""Asks EC2 once a minute which instances fail a status check or have a scheduled event, and makes their nodes leave.

The queue of interruptions says neither (ACT-07, AWS-146, AWS-147). Only the leader asks, because all replicas would get
the same answer. A failing check ends a node by force, so the limit of node repair holds (SCH-104): the power of a zone
may fail, and its nodes with it, but that must not end every node that was there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime

from activities import metrics
from activities.clock import utc_now
from activities.kubernetes.bounded_concurrency import bounded
from activities.kubernetes.client import Kube
from activities.kubernetes.events import EventPublisher
from tenon.disruption.repair.breaker import Breaker
from tenon.disruption.repair.policies import built_in
from tenon.ec2.instances.interruption import NoticeKind
from tenon.ec2.instances.status import InstanceStatus, impaired, unhealthy, without_reboot
from tenon.kube.claim_record import ClaimRecord, instance_id_of
from tenon.kube.event_reasons import EventReason
from worker.cache.changes import Change
from worker.cache.cluster import ClusterCache
from worker.controllers.base import Controller
from worker.controllers.event_subjects import subjects
from worker.controllers.interruption.interrupted_nodes import InterruptedNodes
from worker.controllers.interruption.scheduled_changes import ScheduledChangeLimit

POLL_SECONDS = 60.0
AT_ONCE = 10
"""Nodes that are handled at the same time."""
POLICIES = built_in(reboots=False)
"""Which conditions of a Node count as faults."""


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
        limit: ScheduledChangeLimit,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """``read`` asks EC2 for the instances with an impaired check or an event. It blocks.

        ``limit``: that of the process, which the interruption controller shares.
        """
        super().__init__(cache)
        self._read = read
        self._recorder = recorder
        self._now = now
        self._nodes = InterruptedNodes(kube, recorder, cluster, self._log, now, self.name)
        self._limit = limit

    async def reconcile(self, changes: Sequence[Change]) -> float | None:  # noqa: ARG002
        """Ask EC2, and handle every node that is concerned."""
        statuses = list(await asyncio.to_thread(self._read))
        unhealthy_instances = unhealthy(map(self._without_reboot, statuses), self._now())
        leaving = {
            claim.name: (claim, kind)
            for instance, kind in sorted(unhealthy_instances.items())
            if (claim := self._cache.claim_of_instance(instance)) is not None and self._concerns(kind, claim)
        }
        self._limit.count(self._nodes.leaves)
        fails = any(kind.failed for _, kind in leaving.values())
        breaker = Breaker(self._nodes_and_health(impaired(statuses)) if fails else ())

        async def handle(name: str) -> None:
            claim, kind = leaving[name]
            await self.isolate(name, self._handle(claim, kind, breaker))

        await bounded(sorted(leaving), AT_ONCE, handle)
        return POLL_SECONDS

    def _concerns(self, kind: NoticeKind, claim: ClaimRecord) -> bool:
        """Whether the node must leave, or leaves with its grace although its instance fails."""
        if not self._nodes.leaves(claim):
            return True
        return kind.failed and claim.deleting and not claim.is_forced(self._now())

    def _without_reboot(self, status: InstanceStatus) -> InstanceStatus:
        claim = self._cache.claim_of_instance(status.instance_id)
        return status if claim is None else without_reboot(status, claim)

    def _nodes_and_health(self, failing: Collection[str]) -> Iterator[tuple[str, bool]]:
        """The NodePool of each node, and whether it is unhealthy: for EC2, or by its conditions as for node repair.

        Nodes that leave already count until they are gone, and instances count before they join. The Node of a stopped
        instance is not Ready, so the conditions of warm nodes do not count.
        """
        for node in self._cache.nodes:
            claim = self._cache.claim_of(node)
            conditions = () if claim is not None and claim.warm else node.unhealthy
            sick = instance_id_of(node.provider_id) in failing or any(map(POLICIES.matching, conditions))
            yield claim.pool if claim is not None else "", sick
        for claim in self._cache.claims:
            if claim.provider_id and self._cache.node_of(claim) is None:
                yield claim.pool, claim.instance_id in failing

    async def _handle(self, claim: ClaimRecord, kind: NoticeKind, breaker: Breaker) -> None:
        node = self._cache.node_of(claim)
        reason = EventReason.NODE_REPAIR_BLOCKED
        why = breaker.why_blocked(claim.pool) if kind.failed else ""
        if kind is NoticeKind.EVENT_STATUS:
            reason = EventReason.SCHEDULED_CHANGE_DELAYED
            why = self._limit.admit(claim)
        if why:
            for subject in subjects(claim, node):
                await self._recorder.publish(subject, reason, why)
            return
        leaves = self._nodes.leaves(claim)
        act = self._nodes.end_grace if leaves else self._nodes.make_leave
        if await act(kind, claim, node):
            metrics.INSTANCES_UNHEALTHY.labels(kind.value).inc()
            await self._nodes.tell(kind, claim, node, leaves=not leaves)
