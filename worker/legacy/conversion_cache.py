"""Caches conversion results, because converting costs more than checking for changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from activities import loggers
from activities.kubernetes.resources import AWSNODETEMPLATES, PROVISIONERS, Resource
from tenon.apis.json_object import JsonObject
from tenon.apis.legacy.awsnodetemplate import Defaults
from tenon.apis.legacy.conversion import NODE_CLASS_KIND, name_of
from tenon.apis.legacy.kubelets import class_of
from tenon.apis.legacy.materialized_objects import Materialized, made_of_provisioner, made_of_template
from tenon.apis.legacy.provider_classes import chosen_by_others, provider_class
from tenon.apis.legacy.v1alpha5 import DEFAULT_CLASS
from tenon.kube.owners import controller, owners
from tenon.kube.records import ObjectRecord
from worker.cache.cluster import ClusterCache

log = loggers.LEGACY


class ConversionCache:
    """Caches the conversions of the old objects of one cluster."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self._entries: dict[str, tuple[object, Materialized]] = {}
        """By UID of the old object: the inputs of the conversion, and its result."""

    def of(
        self, templates: Sequence[ObjectRecord], provisioners: Sequence[ObjectRecord], defaults: Defaults
    ) -> dict[str, Materialized]:
        """Convert all old objects. Returns the results by UID."""
        materialized = {record.uid: self._template(record, defaults) for record in templates}
        classes = {name_of(body): body["spec"] for conversion in materialized.values() for body in conversion.manifests}

        def class_spec(name: str) -> Mapping[str, Any] | None:
            node_class = self._cache.nodeclasses.get(name)
            return classes.get(name) or (node_class.spec if node_class is not None else None)

        bodies = [record.body for record in provisioners]
        names = {record.name for record in templates}
        for record in provisioners:
            own = self._provider_class(record, names | chosen_by_others(record.name, bodies))
            materialized[record.uid] = self._provisioner(record, class_spec, defaults, own)
        self._entries = {uid: cached for uid, cached in self._entries.items() if uid in materialized}
        return materialized

    def _template(self, record: ObjectRecord, defaults: Defaults) -> Materialized:
        body = with_type(AWSNODETEMPLATES, record)
        return self._cached(record, defaults, lambda: made_of_template(body, defaults))

    def _provisioner(
        self, record: ObjectRecord, class_spec: Callable[[str], Mapping[str, Any] | None], defaults: Defaults, own: str
    ) -> Materialized:
        body = with_type(PROVISIONERS, record)
        reference = record.spec.get("providerRef")
        class_name = str(reference.get("name")) if isinstance(reference, dict) else DEFAULT_CLASS
        base = class_spec(class_name)
        if not record.spec.get("kubeletConfiguration"):
            base = {} if base is not None else None  # only its existence matters
        return self._cached(record, (defaults, base, own), lambda: made_of_provisioner(body, class_spec, defaults, own))

    def _provider_class(self, record: ObjectRecord, taken_names: Collection[str]) -> str:
        """The name of the class for a Provisioner's inline provider: the class that it already has, or else a free
        name.
        """
        pool = self._cache.pools.get(record.name)
        in_use = class_of(dict(pool.body)) if pool is not None else None
        theirs = {node_class.name for node_class in self._cache.nodeclasses if not _made_for(node_class, record)}
        own = [node_class.name for node_class in self._cache.nodeclasses if node_class.name not in theirs]
        own.sort(key=lambda name: (name != in_use, name))
        return provider_class(record.name, {*taken_names, *theirs}, own)

    def _cached(self, record: ObjectRecord, inputs: object, work_out: Callable[[], Materialized]) -> Materialized:
        origin = (record.body["metadata"].get("generation"), dict(record.annotations), inputs)
        cached = self._entries.get(record.uid)
        if cached is None or cached[0] != origin:
            try:
                conversion = work_out()
            except Exception:  # one object that fails must not stop the conversion of the others
                log.exception(
                    "The controller failed to convert an object of an older API", extra={"object": record.name}
                )
                conversion = Materialized(
                    problem="it could not be converted: the log of Tenon's cluster process says why"
                )
            cached = self._entries[record.uid] = (origin, conversion)
        return cached[1]


def _made_for(present: ObjectRecord, provisioner: ObjectRecord) -> bool:
    """Whether a class was made from this Provisioner, or from an earlier one of the same name and is about to be
    deleted.
    """
    owner = controller(owners(present.body))
    return owner is not None and (owner.kind, owner.name) == (PROVISIONERS.kind, provisioner.name)


def with_type(resource: Resource, record: ObjectRecord) -> dict[str, Any]:
    """The object with its apiVersion and kind, which list items do not state."""
    return {**record.body, "apiVersion": resource.api_version, "kind": resource.kind}


def unused_objects(cache: ClusterCache, materialized: Mapping[str, Materialized]) -> dict[str, list[str]]:
    """By UID of an old object: the objects that it owns but that no conversion produces any more, as text for a
    message.
    """
    used = {(body["kind"], name_of(body)) for conversion in materialized.values() for body in conversion.manifests}
    unused: dict[str, list[str]] = {}
    for kind, records in (("NodePool", cache.pools), (NODE_CLASS_KIND, cache.nodeclasses)):
        for record in records:
            if (kind, record.name) in used or record.deleting:
                continue
            owner = controller(owners(record.body))
            if owner is not None and owner.uid in materialized:
                unused.setdefault(owner.uid, []).append(f"{kind} {record.name}")
    return unused


def is_unused(present: Mapping[str, Any], desired: JsonObject, materialized: Mapping[str, Materialized]) -> bool:
    """Whether an object belongs to an existing old object that is now converted to something else."""
    owner = controller(owners(present))
    becomes = materialized.get(owner.uid) if owner is not None else None
    if becomes is None or becomes.problem:
        return False
    names = {(body["kind"], name_of(body)) for body in becomes.manifests}
    return (desired["kind"], name_of(desired)) not in names
