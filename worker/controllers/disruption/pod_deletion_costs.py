"""Ranks nodes and writes the rank on their pods, if the feature gate PodDeletionCostManagement is on (N15-214).

The ranking is `tenon.disruption.pod_deletion_costs`. It runs at most once a minute, after a change of nodes, pods or
NodePools, and every five minutes, because the schedules of budgets open and close without a change.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from activities import metrics
from activities.clock import utc_now
from activities.disruption.pod_deletion_costs import write_deletion_cost
from activities.kubernetes.bounded_concurrency import bounded
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ForbiddenError
from activities.reported_gauges import report
from tenon.disruption.cluster_model import details_only
from tenon.disruption.pod_deletion_costs import CostWrite, NodeWrites, of_one_cycle, pending_writes
from tenon.disruption.pool_policy import policies_of
from tenon.disruption.situation import Situation
from tenon.provisioning.overlays import Overlaid
from tenon.scheduling.model import InstanceType
from worker.cache.changes import Change, Topic
from worker.cache.cluster import ClusterCache
from worker.cache.planning_view import PlanningView
from worker.cache.snapshot import Snapshot
from worker.controllers.base import Controller

INTERVAL = 60.0
AT_ONCE = 10
"""Pods that are written at the same time. All requests of the process share one limit."""
FORBIDDEN = "apply deploy/rbac-gates/PodDeletionCostManagement.yaml, or turn the gate off"


class PodDeletionCostController(Controller):
    """Writes pod-deletion-cost on pods of ReplicaSets, and removes it where no node should be emptied."""

    name = "pod.deletioncost"
    topics = (Topic.CLAIM, Topic.NODE, Topic.NODE_PODS, Topic.POOL)
    interval = INTERVAL
    resync = 5 * INTERVAL

    def __init__(
        self,
        kube: Kube,
        cache: ClusterCache,
        view: PlanningView,
        types_by_pool: Callable[[], Awaitable[Overlaid]],
        nominated: Callable[[], Collection[str]] = frozenset,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """``types_by_pool``: what the NodePools can buy, for the prices. ``nominated``: the names of Nodes and
        NodeClaims that pods are expected to run on.
        """
        super().__init__(cache)
        self._kube = kube
        self._view = view
        self._types_by_pool = types_by_pool
        self._nominated = nominated
        self._now = now

    async def reconcile(self, changes: Sequence[Change]) -> float | None:  # noqa: ARG002 - ranks all nodes
        """Rank the nodes, and write what differs."""
        types = (await self._types_by_pool()).types_by_pool()
        situation = Situation(
            nodes=self._view.managed_nodes(),
            policies=policies_of(self._view.node_pools(), self._view.disruption_freezes()),
            now=self._now(),
            nominated=frozenset(self._nominated()),
            rollouts=self._view.rollouts(),
        )
        pending = await asyncio.to_thread(_pending, self._view.snapshot(), situation, types)
        first, rest = of_one_cycle(pending)
        unchanged = sum(node.unchanged for node in first)
        metrics.DELETION_COST_WRITES.labels("skipped_unchanged").inc(unchanged)
        writes = [write for node in first for write in node.writes]
        try:
            written = await bounded(writes, AT_ONCE, self._write)
        except ForbiddenError as error:
            _measure(pending)
            raise ForbiddenError(error.status, error.reason, f"{error.message}: {FORBIDDEN}") from error
        failed = {write.pod.uid for write, done in zip(writes, written, strict=True) if not done}
        rest += [node for node in first if any(write.pod.uid in failed for write in node.writes)]
        _measure(rest)
        if writes:
            self._log.info(
                "The worker wrote deletion costs of pods",
                extra={"pod-count": len(writes) - len(failed)},
            )
        return INTERVAL if rest else None

    async def _write(self, write: CostWrite) -> bool:
        return await write_deletion_cost(self._kube, write)


def _measure(waiting: Sequence[NodeWrites]) -> None:
    counts = Counter(node.pool for node in waiting)
    report(metrics.DELETION_COST_PENDING, {(pool,): count for pool, count in counts.items()})


def _pending(snapshot: Snapshot, situation: Situation, types: Mapping[str, Sequence[InstanceType]]) -> list[NodeWrites]:
    model = details_only(snapshot.node_details(types))
    return pending_writes(replace(situation, model=model), snapshot.pods_by_claim())
