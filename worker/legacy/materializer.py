"""Creates and updates the v1 objects that represent an old object, and leaves the objects of others alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from activities import loggers
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ConflictError
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.resources import EC2NODECLASSES, NODEPOOLS, Resource
from tenon.apis.json_object import JsonObject
from tenon.apis.legacy.conversion import NODE_CLASS_KIND, name_of
from tenon.apis.legacy.materialized_objects import Materialized, belongs_to, changes, differs
from tenon.apis.legacy.old_status import INVALID, NAME_TAKEN, REFUSED, WAITING, Outcome
from tenon.kube.event_reasons import EventReason
from tenon.kube.owners import controller, owners
from tenon.kube.records import ObjectRecord
from worker.cache.cluster import ClusterCache

log = loggers.LEGACY

RESOURCES: Mapping[str, Resource] = {"NodePool": NODEPOOLS, NODE_CLASS_KIND: EC2NODECLASSES}

REFUSALS = (400, 403, 422)
"""Status codes that repeat until a user changes something: an admission policy, a validation rule or a permission."""

Free = Callable[[Mapping[str, Any], JsonObject], bool]
"""Whether an object was made from an old object that no longer needs it."""


class Materializer:
    """Manages the v1 objects that represent old objects in one cluster."""

    def __init__(self, kube: Kube, recorder: EventPublisher, cache: ClusterCache) -> None:
        self._kube = kube
        self._recorder = recorder
        self._cache = cache
        self._unchanged: dict[tuple[str, str], tuple[str, JsonObject]] = {}
        """By kind and name: the resourceVersion that matched its manifest, and that manifest."""
        self._overruled: dict[tuple[str, str], tuple[str, int, JsonObject]] = {}
        """By kind and name: the UID and generation of an object that differs from the written manifest, because
        something changed it on its way in, and that manifest.
        """

    def present(self, body: JsonObject) -> ObjectRecord | None:
        """The object of this kind and name in the cache."""
        table = self._cache.pools if body["kind"] == "NodePool" else self._cache.nodeclasses
        return table.get(name_of(body))

    async def reconcile(
        self, old: Mapping[str, Any], materialized: Materialized, claimed: Mapping[tuple[str, str], str], free: Free
    ) -> Outcome:
        """Create or update the objects that represent an old object.

        Args:
            old: the old object.
            materialized: the result of its conversion.
            claimed: by kind and name, other old objects that need an object of the same name and take precedence.
            free: whether an object may be taken over.

        Raises:
            ConflictError: the cache is out of date and will soon catch up.
            ApiError: another failure that may pass.
        """
        if materialized.problem:
            stands = "; the objects created from it stay unchanged" if self._has_objects(old) else ""
            return Outcome(reason=INVALID, problem=materialized.problem + stands)
        for body in materialized.manifests:
            taken_by = self._taken(old, body, claimed, free)
            if taken_by is not None:
                return taken_by
        for body in reversed(materialized.manifests):  # create a class before the pool that refers to it
            try:
                await self._reconcile_object(old, body, free)
            except ApiError as error:
                if error.status not in REFUSALS:
                    raise
                title = f"{body['kind']} {name_of(body)}"
                return Outcome(reason=REFUSED, problem=f"the API server rejects {title}: {error.message}")
        return Outcome(became=materialized.names, notes=materialized.notes)

    def _has_objects(self, old: Mapping[str, Any]) -> bool:
        present_objects = (self.present({"kind": kind, "metadata": {"name": name_of(old)}}) for kind in RESOURCES)
        return any(record is not None and belongs_to(record.body, old) for record in present_objects)

    def _taken(
        self, old: Mapping[str, Any], body: JsonObject, claimed: Mapping[tuple[str, str], str], free: Free
    ) -> Outcome | None:
        """Why the name of an object is not available. None if it is."""
        kind, name = body["kind"], name_of(body)
        other = claimed.get((kind, name))
        if other:
            return Outcome(reason=NAME_TAKEN, problem=f"{other} becomes {kind} {name} too: rename one of them")
        if kind == "NodePool" and name in self._cache.pools.left_out:
            return Outcome(
                reason=NAME_TAKEN, problem=f"NodePool {name} belongs to another controller: rename one of the two"
            )
        record = self.present(body)
        if record is None:
            return None
        mine = belongs_to(record.body, old)
        if record.deleting and (mine or _of_same_name(record.body, old)):
            why = (
                "it is created again when its nodes are gone" if kind == NODE_CLASS_KIND else "it is created again then"
            )
            return Outcome(reason=WAITING, problem=f"{kind} {name} is being deleted: {why}")
        if mine or free(record.body, body):
            return None
        if _of_same_name(record.body, old):
            return Outcome(
                reason=WAITING,
                problem=f"{kind} {name} was created from an earlier object of this name and is about to be deleted",
            )
        return Outcome(
            reason=NAME_TAKEN,
            problem=f"{kind} {name} exists and was not created from it: delete it, or rename one of the two",
        )

    async def _reconcile_object(self, old: Mapping[str, Any], body: JsonObject, free: Free) -> None:
        """Create or update one object."""
        kind, name = body["kind"], name_of(body)
        resource = RESOURCES[kind]
        record = self.present(body)
        if record is None:
            await self._kube.create(resource, body)
            log.info(
                "The controller created an object from one of an older API",
                extra={"kind": kind, "object": name, "source-object": _shown(old)},
            )
        elif self._is_known(record, body):
            return
        elif differs(record.body, body):
            fresh = await self._kube.get(resource, name)
            # Do not own an orphaned object (--cascade=orphan) again: it would be deleted with its old owner.
            if fresh is None or not (belongs_to(fresh, old) or free(fresh, body)):
                raise ConflictError(409, "Conflict", f"{kind} {name} changed meanwhile")
            if differs(fresh, body):
                await self._update(resource, fresh, body, old)
        else:
            self._unchanged[kind, name] = (record.resource_version, body)

    def _is_known(self, record: ObjectRecord, body: JsonObject) -> bool:
        """Whether this object was already compared to this manifest and needs no further write."""
        place, generation = (body["kind"], name_of(body)), record.body["metadata"].get("generation")
        is_unchanged = self._unchanged.get(place) == (record.resource_version, body)
        return is_unchanged or self._overruled.get(place) == (record.uid, generation, body)

    async def _update(
        self, resource: Resource, present: Mapping[str, Any], body: JsonObject, old: Mapping[str, Any]
    ) -> None:
        name = name_of(body)
        answer = await self._kube.patch(resource, name, changes(present, body), kind="json")
        if answer is None:
            return
        regarding = {"apiVersion": body["apiVersion"], "kind": body["kind"], **answer}
        if differs(answer, body):
            metadata = answer["metadata"]
            self._overruled[body["kind"], name] = (metadata["uid"], metadata.get("generation"), body)
            text = f"it differs from {_shown(old)}: an admission policy may have changed it"
            log.warning(
                "An object differs from its source of an older API",
                extra={"kind": body["kind"], "object": name, "source-object": _shown(old), "error": text},
            )
            await self._recorder.publish(regarding, EventReason.NOT_IN_STEP, text)
            return
        log.info(
            "The controller updated an object from one of an older API",
            extra={"kind": body["kind"], "object": name, "source-object": _shown(old)},
        )
        _, before = self._unchanged.get((body["kind"], name), ("", None))
        if before == body:  # a user edited the v1 object and not the old one; a new leader does not know which
            text = f"Tenon reset it to match {_shown(old)}: edit the older object instead"
            await self._recorder.publish(regarding, EventReason.KEPT_IN_STEP, text)


def _of_same_name(present: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Whether an object belongs to an earlier old object of the same name."""
    owner = controller(owners(present))
    return owner is not None and (owner.kind, owner.name) == (old["kind"], name_of(old))


def _shown(old: Mapping[str, Any]) -> str:
    return f"{old['kind']} {name_of(old)}"
