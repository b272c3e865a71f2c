"""Tells on each NodeOverlay whether it holds.

Nothing waits for what is written here: every plan holds the overlays against the types anew, by the same function.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from datetime import UTC, datetime

from activities.ec2.errors import EC2Error
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import NODEOVERLAYS
from activities.planning.interfaces import Types
from activities.planning.offerings import sold_by
from tenon.apis.nodeoverlay import NodeOverlayStatus
from tenon.kube.records import ObjectRecord
from tenon.provisioning.overlay_status import overlay_conditions
from tenon.provisioning.overlays import Overlaid
from tenon.provisioning.readiness import usable_pools
from worker.cache.changes import Topic
from worker.cache.cluster import ClusterCache
from worker.cache.planning_view import PlanningView
from worker.runtime.log_rate_limit import LogRateLimiter

log = logging.getLogger("nodeoverlay.controller")

SETTLE = 0.5
"""Seconds in which changes gather before overlays are held against all types."""
RESYNC = 6 * 3600.0
RETRY = 30.0


class NodeOverlayController:
    """Writes the conditions of every NodeOverlay when an overlay, a NodePool or a class changed."""

    def __init__(self, kube: Kube, cache: ClusterCache, view: PlanningView, types: Types) -> None:
        self._kube = kube
        self._cache = cache
        self._view = view
        self._types = types
        self._log_limiter = LogRateLimiter()

    async def run(self) -> None:
        """Serve until cancelled."""
        with self._cache.subscribe([Topic.OVERLAY, Topic.POOL, Topic.NODECLASS]) as news:
            await self._cache.wait_synced()
            while True:
                pause = RESYNC if await self._evaluate() else RETRY
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await news.next()
                await asyncio.sleep(SETTLE)
                news.take()

    async def _evaluate(self) -> bool:
        """Whether all that is to be told was."""
        if not len(self._cache.overlays):
            return True
        try:
            pools = usable_pools(self._view.node_pools(), self._view.node_class)
            seen = await sold_by(self._view, self._types, pools)
            done = [await self._tell(record, seen) for record in self._cache.overlays]
        except EC2Error as error:
            self._complain("types", f"the instance types could not be read: {error}")
            return False
        except Exception:  # overlays go on to hold in plans, whatever is wrong here
            if self._log_limiter.count("fault") is not None:
                log.exception("NodeOverlays could not be served")
            return False
        return all(done)

    async def _tell(self, record: ObjectRecord, seen: Overlaid) -> bool:
        if record.deleting:
            return True
        before = NodeOverlayStatus.model_validate({"conditions": record.status.get("conditions") or []}).conditions
        faults = [str(fault) for fault in self._view.node_overlay(record)[1]]
        conditions = [
            condition.model_dump(by_alias=True, exclude_none=True, mode="json")
            for condition in overlay_conditions(
                record.name,
                before,
                faults,
                seen,
                now=datetime.now(UTC),
                generation=record.body["metadata"].get("generation"),
            )
        ]
        if conditions == record.status.get("conditions"):
            return True
        try:
            await self._kube.patch(
                NODEOVERLAYS, record.name, {"status": {"conditions": conditions}}, subresource="status"
            )
        except ApiError as error:
            self._complain(record.name, str(error))
            return False
        told = conditions[0]
        level = logging.INFO if told["status"] == "True" else logging.WARNING
        log.log(
            level,
            "evaluated node overlay",
            extra={"nodeoverlay": record.name, "reason": told["reason"], "message-of-condition": told["message"]},
        )
        return True

    def _complain(self, thing: str, why: str) -> None:
        if self._log_limiter.count(thing) is not None:
            log.warning("NodeOverlays could not be evaluated", extra={"nodeoverlay": thing, "error": why})
