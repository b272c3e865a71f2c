"""Writes the status of every DisruptionFreeze: whether it holds, when that changes, and what is wrong with it.

Nothing depends on the status: every pass evaluates the freezes itself, with the same functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from activities import metrics
from activities.clock import utc_now
from activities.kubernetes.client import Kube
from activities.kubernetes.resources import DISRUPTIONFREEZES
from activities.reported_gauges import report
from tenon.disruption.freezes.freeze import freezes_for, frozen_now, selects
from tenon.disruption.freezes.status import freeze_status
from tenon.kube.records import ObjectRecord
from worker.cache.changes import Change, Topic
from worker.cache.cluster import ClusterCache
from worker.cache.planning_view import PlanningView
from worker.controllers.base import Controller

RETRY = 30.0
LONGEST_WAIT = 6 * 3600.0


class DisruptionFreezeController(Controller):
    """Writes all statuses when a freeze or a NodePool changed, and when time changes a freeze."""

    name = "disruptionfreeze"
    object_field = "disruptionfreeze"
    topics = (Topic.FREEZE, Topic.POOL)
    interval = 1.0

    def __init__(self, kube: Kube, cache: ClusterCache, view: PlanningView) -> None:
        super().__init__(cache)
        self._kube = kube
        self._view = view

    async def reconcile(self, changes: Sequence[Change]) -> float | None:  # noqa: ARG002 - time changes any of them
        """Evaluate all freezes."""
        now = utc_now()
        self._measure(now)
        waits: list[float] = []
        for record in list(self._cache.freezes):
            if record.deleting:
                continue
            if not await self.isolate(record.name, self._write(record, now, waits)):
                waits.append(RETRY)
        return min([*waits, LONGEST_WAIT]) if waits else None

    def _measure(self, now: datetime) -> None:
        """Say in a metric which NodePools are frozen, and which are no longer."""
        models = self._view.disruption_freezes()
        frozen_pools: dict[tuple[str, str], float] = {}
        for pool in self._view.node_pools() if models else ():
            frozen = frozen_now(freezes_for(models, pool.metadata.name, pool.metadata.labels), now)
            if frozen is not None:
                frozen_pools[pool.metadata.name, frozen.freeze.name] = 1
        report(metrics.FROZEN_POOLS, frozen_pools)

    async def _write(self, record: ObjectRecord, now: datetime, waits: list[float]) -> None:
        model, faults = self._view.disruption_freeze(record)
        pools = self._view.node_pools()
        selected = (
            sum(selects(model.spec, pool.metadata.name, pool.metadata.labels) for pool in pools)
            if model is not None
            else 0
        )
        generation = record.body["metadata"].get("generation")
        status, next_change = freeze_status(
            model, record.status, [str(fault) for fault in faults], selected, now=now, generation=generation
        )
        if next_change is not None:
            waits.append(max(1.0, (next_change - now).total_seconds()))
        if all(record.status.get(field) == value for field, value in status.items()):
            return
        await self._kube.patch(DISRUPTIONFREEZES, record.name, {"status": status}, subresource="status")
