"""Writes to the status of each NodeOverlay whether it applies.

Nothing depends on this status: every plan evaluates the overlays itself, with the same function.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from activities.clock import utc_now
from activities.cluster_view.interfaces import Types
from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODEOVERLAYS
from activities.provisioning.offerings import instance_types_by_pool
from tenon.apis.nodeoverlay import NodeOverlayStatus
from tenon.kube.records import ObjectRecord
from tenon.provisioning.overlay_status import overlay_conditions
from tenon.provisioning.overlays import Overlaid
from tenon.provisioning.readiness import usable_pools
from worker.cache.changes import Change, Topic
from worker.cache.cluster import ClusterCache
from worker.cache.planning_view import PlanningView
from worker.controllers.base import Controller

RETRY = 30.0


class NodeOverlayController(Controller):
    """Writes the conditions of every NodeOverlay when an overlay, a NodePool or a class changed."""

    name = "nodeoverlay"
    object_field = "nodeoverlay"
    topics = (Topic.OVERLAY, Topic.POOL, Topic.NODECLASS)
    resync = 6 * 3600.0

    def __init__(self, kube: Kube, cache: ClusterCache, view: PlanningView, types: Types) -> None:
        super().__init__(cache)
        self._kube = kube
        self._view = view
        self._types = types

    async def reconcile(self, changes: Sequence[Change]) -> float | None:  # noqa: ARG002
        """Evaluate all overlays: each depends on the others and on all pools."""
        if not len(self._cache.overlays):
            return None
        written: list[bool] = []

        async def evaluate() -> None:
            pools = usable_pools(self._view.node_pools(), self._view.node_class, self._view)
            overlaid = await instance_types_by_pool(self._view, self._types, pools)
            for record in self._cache.overlays:
                written.append(await self.isolate(record.name, self._write(record, overlaid)))

        return None if await self.isolate("", evaluate()) and all(written) else RETRY

    async def _write(self, record: ObjectRecord, overlaid: Overlaid) -> None:
        if record.deleting:
            return
        before = NodeOverlayStatus.model_validate({"conditions": record.status.get("conditions") or []}).conditions
        faults = [str(fault) for fault in self._view.node_overlay(record)[1]]
        conditions = [
            condition.to_dict()
            for condition in overlay_conditions(
                record.name,
                before,
                faults,
                overlaid,
                now=utc_now(),
                generation=record.body["metadata"].get("generation"),
            )
        ]
        if conditions == record.status.get("conditions"):
            return
        await self._kube.patch(NODEOVERLAYS, record.name, {"status": {"conditions": conditions}}, subresource="status")
        validation = conditions[0]
        level = logging.INFO if validation["status"] == "True" else logging.WARNING
        self._log.log(
            level,
            "The controller evaluated a NodeOverlay",
            extra={
                "nodeoverlay": record.name,
                "reason": validation["reason"],
                "condition-message": validation["message"],
            },
        )
