"""Says on the EC2NodeClasses when ARC shifts the cluster away from one of their zones, and when that ends (EVT-07).

If AWS refuses the question, every class has an event about it, because launches then go on in a zone that fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar, Protocol

from activities.kubernetes.event_references import reference
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.resources import EC2NODECLASSES
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.json_object import JsonObject
from tenon.kube.event_reasons import EventReason
from tenon.kube.records import ObjectRecord
from worker.cache.changes import Change
from worker.cache.cluster import ClusterCache
from worker.cache.planning_view import PlanningView
from worker.controllers.base import Controller


class Shifts(Protocol):
    """What ARC says, as `activities.ec2.provider.Ec2Provider` does."""

    def shifted_zones(self) -> frozenset[str]:
        """The IDs of the zones that ARC shifts the cluster away from. Blocking."""
        ...

    def refused_zones(self) -> str:
        """Why AWS last refused to tell the zones, and what to do; empty if it did not refuse."""
        ...


class ZonalShiftController(Controller):
    """Follows the zonal shifts. Plans and launches ask for themselves."""

    name = "zonalshift"
    object_field = "ec2nodeclass"
    topics = ()
    resync = 30.0
    _reported: ClassVar[dict[str, frozenset[str]]] = {}
    """By the UID of a class, the zones of its subnets whose shift it has an event about. It outlives the controller: a
    leader that leads again would otherwise repeat these events, and not say that a shift ended meanwhile."""

    def __init__(self, recorder: EventPublisher, cache: ClusterCache, view: PlanningView, shifts: Shifts) -> None:
        super().__init__(cache)
        self._recorder = recorder
        self._view = view
        self._shifts = shifts
        self._away: frozenset[str] = frozenset()

    async def reconcile(self, changes: Sequence[Change]) -> float | None:  # noqa: ARG002
        """Publish on each class what changed since its last event."""
        away = await asyncio.to_thread(self._shifts.shifted_zones)
        begun, ended, self._away = away - self._away, self._away - away, away
        for zone in sorted(begun):
            self._log.info(
                "ARC shifts the cluster away from a zone, and no node is launched there", extra={"zone": zone}
            )
        for zone in sorted(ended):
            self._log.info("ARC no longer shifts the cluster away from a zone", extra={"zone": zone})
        for record in self._cache.nodeclasses:
            await self._report(record, away)
        for uid in self._reported.keys() - {record.uid for record in self._cache.nodeclasses}:
            del self._reported[uid]
        if refusal := self._shifts.refused_zones():
            message = f"Zonal shifts are not known, so nodes may be launched in a zone that fails: {refusal}"
            for record in self._cache.nodeclasses:
                await self._recorder.publish(_reference(record), EventReason.ZONAL_SHIFT_UNKNOWN, message)
        return None

    async def _report(self, record: ObjectRecord, away: frozenset[str]) -> None:
        node_class = self._view.node_class(record.name)
        if node_class is None:
            return
        reported = self._reported.get(record.uid, frozenset())
        names = {zone: name for zone in sorted(away | reported) if (name := _zone_named(node_class, zone))}
        for zone, name in names.items():
            if zone not in reported:
                message = f"ARC shifts the cluster away from zone {name}: no node is launched there"
                await self._recorder.publish(_reference(record), EventReason.ZONAL_SHIFT_ACTIVE, message)
            elif zone not in away:
                message = f"ARC no longer shifts the cluster away from zone {name}: nodes are launched there again"
                await self._recorder.publish(_reference(record), EventReason.ZONAL_SHIFT_CLEARED, message)
        self._reported[record.uid] = away & names.keys()


def _reference(record: ObjectRecord) -> JsonObject:
    return reference(EC2NODECLASSES, record.name, record.uid)


def _zone_named(node_class: EC2NodeClass, zone: str) -> str:
    """The name of the zone if the class has a subnet there; empty if not."""
    return next((subnet.zone for subnet in node_class.status.subnets if zone in (subnet.zone_id, subnet.zone)), "")
