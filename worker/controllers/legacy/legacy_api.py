"""Makes Provisioners and AWSNodeTemplates work: creates the NodePools and EC2NodeClasses that represent them.

Level-triggered: each reconcile looks at all old objects in a fixed order, and writes what differs. The status of the
old objects shows the result. An object that cannot be reconciled never stops the others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from activities.clock import utc_now
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ConflictError
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.resources import AWSNODETEMPLATES, MACHINES, PROVISIONERS, Resource
from tenon.apis.json_object import JsonObject
from tenon.apis.legacy.abandoned_provisioners import left_over
from tenon.apis.legacy.awsnodetemplate import Defaults
from tenon.apis.legacy.conversion import name_of
from tenon.apis.legacy.materialized_objects import Materialized
from tenon.apis.legacy.old_status import (
    CONVERTED,
    LEFT_OVER,
    NAME_TAKEN,
    WAITING,
    Outcome,
    machine_status,
    provisioner_status,
    template_status,
)
from tenon.kube.event_reasons import ConditionEvent
from tenon.kube.records import ObjectRecord
from worker.cache.changes import Change, Topic
from worker.cache.cluster import ClusterCache
from worker.controllers.base import Controller
from worker.legacy.conversion_cache import ConversionCache, is_unused, unused_objects, with_type
from worker.legacy.materializer import Materializer
from worker.legacy.watches import LegacyObjects

RESYNC = 60.0


class LegacyApiController(Controller):
    """Creates and updates the v1 objects that represent the old objects of one cluster."""

    name = "legacy"
    topics = (Topic.LEGACY, Topic.POOL, Topic.NODECLASS, Topic.CLAIM)
    resync = RESYNC

    def __init__(
        self,
        kube: Kube,
        recorder: EventPublisher,
        cache: ClusterCache,
        objects: LegacyObjects,
        defaults: Defaults,
    ) -> None:
        """``defaults``: the cluster-wide settings that apply to node classes."""
        super().__init__(cache)
        self._kube = kube
        self._recorder = recorder
        self._objects = objects
        self._defaults = defaults
        self._materializer = Materializer(kube, recorder, cache)
        self._conversions = ConversionCache(cache)
        self._unused: Mapping[str, list[str]] = {}
        self._written: dict[str, tuple[str, JsonObject]] = {}
        """By UID: the resourceVersion after the last write of a status, and that status."""
        self._reported: dict[str, str] = {}
        """By UID: the problem that the last event reported."""

    async def wait_ready(self) -> None:
        """Wait for the cache and for the old objects, unless the API server does not serve those."""
        await super().wait_ready()
        await self._objects.wait_known()

    async def reconcile(self, changes: Sequence[Change]) -> float | None:  # noqa: ARG002
        """Look at all old objects, in a fixed order: the first one that claims a name gets it."""
        if self._objects.any_exists:
            await self._reconcile_all()
        return None

    async def _reconcile_all(self) -> None:
        templates, provisioners = _in_order(self._objects.templates), _in_order(self._objects.provisioners)
        conversions = self._conversions.of(templates, provisioners, self._defaults)
        self._unused = unused_objects(self._cache, conversions)
        self._forget(conversions.keys() | {machine.uid for machine in self._objects.machines})
        claimed: dict[tuple[str, str], str] = {}
        scaled = self._scaled() if provisioners else {}
        for resource, records in ((AWSNODETEMPLATES, templates), (PROVISIONERS, provisioners)):
            for record in records:
                await self._isolate_old(
                    resource, record, self._reconcile_old(resource, record, conversions, claimed, scaled)
                )
        for machine in self._objects.machines:
            status = machine_status(machine.body, utc_now())
            await self._isolate_old(MACHINES, machine, self._write(MACHINES, machine, status))

    async def _isolate_old(self, resource: Resource, record: ObjectRecord, work: Awaitable[None]) -> None:
        async def reconcile() -> None:
            try:
                await work
            except ConflictError:  # another client changed it, and the cache will see that soon
                self._log.debug(
                    "Another client changed an object of an older API",
                    extra={"kind": resource.kind, "object": record.name},
                )

        await self.isolate(f"{resource.kind}/{record.name}", reconcile())

    async def _reconcile_old(
        self,
        resource: Resource,
        record: ObjectRecord,
        conversions: Mapping[str, Materialized],
        claimed: dict[tuple[str, str], str],
        scaled: Mapping[str, list[str]],
    ) -> None:
        if record.deleting:
            return
        old = with_type(resource, record)
        mine = conversions[record.uid]

        def free(present: Mapping[str, Any], desired: JsonObject) -> bool:
            return is_unused(present, desired, conversions)

        why = left_over(old, (pool.body for pool in self._cache.pools)) if resource is PROVISIONERS else ""
        if why:
            outcome = Outcome(reason=LEFT_OVER, problem=why)
        else:
            outcome = await self._materializer.reconcile(old, mine, claimed, free)
        if outcome.became and (unused := self._unused.get(record.uid)):
            text = f"{', '.join(unused)} was created from it earlier and is no longer used: delete it"
            outcome = replace(outcome, notes=[*outcome.notes, text])
        for body in mine.manifests if outcome.reason not in (NAME_TAKEN, LEFT_OVER) else ():
            claimed.setdefault((body["kind"], name_of(body)), f"{resource.kind} {record.name}")
        now = utc_now()
        if resource is PROVISIONERS:
            pool = self._cache.pools.get(record.name) if outcome.became else None
            status = provisioner_status(
                old, outcome, None if pool is None else pool.body, scaled.get(record.name, ()), now
            )
        else:
            node_class = self._cache.nodeclasses.get(record.name) if outcome.became else None
            status = template_status(old, outcome, None if node_class is None else node_class.body, now)
        await self._write(resource, record, status)
        message = next(condition["message"] for condition in status["conditions"] if condition["type"] == CONVERTED)
        previous_message = (record.condition(CONVERTED).get("message"), self._reported.get(record.uid))
        if outcome.problem and outcome.reason != WAITING and message not in previous_message:
            self._reported[record.uid] = message
            await self._publish(resource, record, outcome)

    async def _write(self, resource: Resource, record: ObjectRecord, status: JsonObject) -> None:
        present = record.status
        changed = {name: value for name, value in status.items() if present.get(name, type(value)()) != value}
        if "resources" in changed:  # a merge patch keeps the names that it does not mention
            removed_resources = {
                name: None for name in present.get("resources") or {} if name not in status["resources"]
            }
            changed["resources"] = {**status["resources"], **removed_resources}
        # Karpenter's old CRDs drop unknown fields: writing those fields again would never end.
        writing = (record.resource_version, _timeless(status))
        if changed and self._written.get(record.uid) != writing:
            answer = await self._kube.patch(resource, record.name, {"status": changed}, subresource="status")
            if answer is not None:
                self._written[record.uid] = (answer["metadata"]["resourceVersion"], writing[1])

    def _forget(self, present_uids: Collection[str]) -> None:
        self._written = {uid: written for uid, written in self._written.items() if uid in present_uids}
        self._reported = {uid: problem for uid, problem in self._reported.items() if uid in present_uids}

    async def _publish(self, resource: Resource, record: ObjectRecord, outcome: Outcome) -> None:
        """Publish and log why an old object has no effect."""
        await self._recorder.publish(with_type(resource, record), ConditionEvent(outcome.reason), outcome.problem)
        self._log.warning(
            "An object of an older API has no effect",
            extra={"kind": resource.kind, "object": record.name, "error": outcome.problem},
        )

    def _scaled(self) -> dict[str, list[str]]:
        """The creation times of each pool's NodeClaims."""
        scaled: dict[str, list[str]] = {}
        for claim in self._cache.claims:
            scaled.setdefault(claim.pool, []).append(str(claim.metadata.get("creationTimestamp") or ""))
        return scaled


def _timeless(status: JsonObject) -> JsonObject:
    """The status without transition times, which are new at each computation if the old object keeps none."""
    conditions = [{**condition, "lastTransitionTime": ""} for condition in status["conditions"]]
    return {**status, "conditions": conditions}


def _in_order(records: Iterable[ObjectRecord]) -> list[ObjectRecord]:
    return sorted(records, key=lambda record: record.name)
