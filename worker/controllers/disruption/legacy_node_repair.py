"""Replaces unhealthy nodes as in Karpenter 1.14, with the gate NodeRepair and LEGACY_NODE_REPAIR (CTL-08, N15-144).

The controller only asks: it writes on the NodeClaim that its grace period is over, and deletes it. The node's workflow
then drains the node by force, and pending pods get new nodes as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from activities import metrics
from activities.clock import utc_now
from activities.kubernetes.bounded_concurrency import bounded
from activities.kubernetes.client import Kube
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.nodeclaim_deletion import delete_without_grace, end_grace
from activities.kubernetes.nodeclaims import read_claim
from activities.kubernetes.resources import NODES
from tenon.apis import labels
from tenon.apis.reasons import Reason
from tenon.disruption.repair.breaker import Breaker, veto
from tenon.disruption.repair.legacy import LegacyFault, fault_of
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.conditions import condition
from tenon.kube.event_reasons import EventReason
from tenon.kube.records import NodeRecord
from tenon.kube.timestamps import clock_instant, format_instant
from tenon.messages.base import ClaimRef
from tenon.messages.node import Removal
from tenon.node.cordon import condition_label
from tenon.sentences import lasting
from worker.cache.changes import Change, Topic
from worker.cache.cluster import ClusterCache
from worker.controllers.base import Controller
from worker.controllers.event_subjects import subjects

BLOCKED_RETRY = timedelta(minutes=5)
FAILED_RETRY = timedelta(seconds=15)
MODE = "forceful"
"""How unhealthy NodeClaims are counted: no drain of this controller waits for anything."""
AT_ONCE = 10
"""Nodes that are handled at the same time."""


class LegacyNodeRepairController(Controller):
    """Deletes the NodeClaim of a node that has been unhealthy for longer than its condition's toleration."""

    name = "node.health"
    object_field = "node"
    topics = (Topic.NODE,)

    def __init__(
        self,
        kube: Kube,
        recorder: EventPublisher,
        cache: ClusterCache,
        cluster: str,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        super().__init__(cache)
        self._kube = kube
        self._recorder = recorder
        self._cluster = cluster
        self._now = now
        self._faults: dict[str, LegacyFault] = {}
        """By Node: why it is unhealthy. Other controllers' Nodes count too, for stand-alone NodeClaims.

        Those of warm nodes are here too: whether they count changes with the NodeClaim, without a change of the Node.
        """
        self._not_before: dict[str, datetime] = {}
        """By Node: when to look at it again after its repair was blocked, failed or began."""

    def initial(self) -> Sequence[Change]:
        """All Nodes."""
        return [(Topic.NODE, node.name) for node in self._cache.nodes]

    async def reconcile(self, changes: Sequence[Change]) -> float | None:
        """Note which Nodes are unhealthy, and repair those that are due."""
        for _, name in changes:
            self._observe(name)
        now = self._now()
        due = sorted(name for name, at in self._due_checks().items() if at <= now)
        if due:
            breaker = self._breaker()

            async def handle(name: str) -> None:
                self._not_before[name] = now + BLOCKED_RETRY
                if not await self.isolate(name, self._handle(name, breaker)):
                    self._not_before[name] = now + FAILED_RETRY

            await bounded(due, AT_ONCE, handle)
        next_look = min(self._due_checks().values(), default=None)
        return None if next_look is None else max(0.0, (next_look - self._now()).total_seconds())

    def _observe(self, name: str) -> None:
        node = self._cache.nodes.get(name)
        fault = fault_of(node.unhealthy) if node is not None else None
        if fault is not None:
            self._faults[name] = fault
        else:
            self._faults.pop(name, None)
            self._not_before.pop(name, None)

    def _due_checks(self) -> dict[str, datetime]:
        """By Node: when to look at it again."""
        return {
            name: max(fault.due, self._not_before.get(name, fault.due))
            for name, fault in self._faults.items()
            if fault.due is not None
        }

    def _breaker(self) -> Breaker:
        return Breaker(map(self._pool_and_health, self._cache.nodes))

    def _pool_and_health(self, node: NodeRecord) -> tuple[str, bool]:
        claim = self._cache.claim_of(node)
        if claim is None:
            return "", node.name in self._faults
        return claim.pool, node.name in self._faults and not claim.warm  # a stopped node is not broken

    async def _handle(self, name: str, breaker: Breaker) -> None:
        node = self._cache.nodes.get(name)
        claim = self._cache.claim_of(node) if node is not None else None
        if node is None or claim is None or claim.warm or (claim.deleting and claim.is_forced(self._now())):
            return
        fault = self._faults[name]
        if why := breaker.why_blocked(claim.pool):
            for subject in subjects(claim, node):
                await self._recorder.publish(subject, EventReason.NODE_REPAIR_BLOCKED, why)
            return
        fresh = await self._kube.get(NODES, node.name)
        if fresh is not None and _is_still(fresh, node, fault):
            await self._repair(claim, node, fault, fresh["metadata"].get("annotations") or {})

    async def _repair(
        self, cached: ClaimRecord, node: NodeRecord, fault: LegacyFault, annotations: Mapping[str, str]
    ) -> None:
        """Delete the claim, unless an annotation of it or of the Node (``annotations``) keeps repair away.

        A node that leaves already, perhaps held by a PodDisruptionBudget, loses what is left of its grace period.
        """
        ref = ClaimRef(cluster=self._cluster, name=cached.name, uid=cached.uid)
        claim = await read_claim(self._kube, ref)
        if claim is None:
            return
        if kind := veto(annotations, claim.annotations):
            why = f"The {kind} has the annotation {labels.DO_NOT_REPAIR}: remove it so that the node is replaced"
            for subject in subjects(cached, node):
                await self._recorder.publish(subject, EventReason.NODE_REPAIR_BLOCKED, why)
            return
        now = self._now()
        since = clock_instant(fault.condition.since)
        status = f"{fault.condition.type} is {fault.condition.status}"
        detail = f"{status} for {lasting(now - since)}"
        removal = Removal(reason=Reason.UNHEALTHY, detail=detail, actor=f"controller {self.name}")
        extra = {
            "nodeclaim": claim.name,
            "node": node.name,
            "nodepool": claim.pool,
            "reason": status,
            "since": format_instant(since),
        }
        if claim.deleting:  # what deleted it has counted it
            if await end_grace(self._kube, ref, claim, removal, now):
                self._log.warning("A node that leaves does so by force because it is unhealthy", extra=extra)
            return
        if not await delete_without_grace(self._kube, ref, claim, removal, now):
            return
        self._log.warning("A node is replaced because it is unhealthy", extra=extra)
        capacity_type = claim.labels.get(labels.CAPACITY_TYPE, "")
        type_, reason = condition_label(fault.condition.type), Reason.UNHEALTHY.snake_case
        metrics.CLAIMS_UNHEALTHY.labels(type_, claim.pool, capacity_type, claim.image_id, MODE).inc()
        metrics.CLAIMS_DISRUPTED.labels(reason, claim.pool, capacity_type, "", claim.termination_mode).inc()
        moving = sum(pod.reschedulable for pod in self._cache.pods_on(node.name))
        metrics.PODS_DISRUPTED.labels(reason, claim.pool, capacity_type, "", claim.termination_mode).inc(moving)


def _is_still(fresh: Mapping[str, Any], node: NodeRecord, fault: LegacyFault) -> bool:
    """Whether the API server confirms what the cache says. A repair cannot be undone."""
    same = fresh["metadata"].get("uid") == node.uid
    return same and condition(fresh, fault.condition.type).get("status") == fault.condition.status
