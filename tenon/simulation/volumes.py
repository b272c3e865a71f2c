"""Adds what a live cluster would have added for volumes: the claims of StatefulSets, and bindings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenon.apis.json_object import JsonObject
from tenon.kube.timestamps import epoch_seconds
from tenon.kube.volumes import BIND_COMPLETED, DEFAULT_CLASS, WAITS, StorageClass, default_class
from tenon.simulation.objects import Objects, SourcedObject


def add_template_claims(objects: Objects, workload: SourcedObject, pod: SourcedObject) -> None:
    """Add to a pod the volumes of its StatefulSet's claim templates.

    An existing claim ties the pod to its volume's location. A claim that does not exist yet restricts the pod only if
    its StorageClass is known and waits for the first consumer. Otherwise the volume's location is unknown.
    """
    for template in workload.body["spec"].get("volumeClaimTemplates") or ():
        name = f"{template['metadata']['name']}-{pod.name}"
        key = f"{pod.namespace}/{name}"
        claims = objects.by_kind.setdefault("PersistentVolumeClaim", {})
        if key not in claims:
            storage = _storage_class(objects, template.get("spec") or {})
            if storage is None:
                objects.note(
                    f"a StorageClass of {workload.subject} is not in the input: its volumes may be in any zone"
                )
                continue
            if storage.get("volumeBindingMode") != WAITS:
                continue
            body = {"metadata": {"name": name, "namespace": pod.namespace}, "spec": template.get("spec") or {}}
            claims[key] = SourcedObject("PersistentVolumeClaim", body, workload.source)
        spec = pod.body["spec"]
        volume = {"name": template["metadata"]["name"], "persistentVolumeClaim": {"claimName": name}}
        pod.body["spec"] = {**spec, "volumes": [*(spec.get("volumes") or ()), volume]}


def complete_bindings(objects: Objects) -> None:
    """Treat a claim that names its volume as bound, unless its status says otherwise.

    Claims in files rarely include a status, or the annotation that a cluster's claims have.
    """
    for item in objects.of("PersistentVolumeClaim"):
        metadata = item.body["metadata"]
        volume_name = (item.body.get("spec") or {}).get("volumeName")
        if volume_name and (item.body.get("status") or {}).get("phase") in (None, "", "Bound"):
            annotations = {BIND_COMPLETED: "yes", **(metadata.get("annotations") or {})}
            item.body["metadata"] = {**metadata, "annotations": annotations}


def _storage_class(objects: Objects, spec: Mapping[str, Any]) -> JsonObject | None:
    """Return a claim's StorageClass, which defaults to the default class.

    Return None if the input does not contain it.
    """
    name = spec.get("storageClassName")
    if name is None:
        default = default_class(_as_default(item) for item in objects.of("StorageClass"))
        name = default.name if default is not None else ""
    item = objects.by_kind.get("StorageClass", {}).get(name)
    return item.body if item is not None else None


def _as_default(item: SourcedObject) -> StorageClass:
    """Convert a StorageClass to the fields that the choice of the default class needs."""
    metadata = item.body["metadata"]
    annotations, created = metadata.get("annotations") or {}, metadata.get("creationTimestamp")
    return StorageClass(
        name=item.name,
        default=any(annotations.get(name) == "true" for name in DEFAULT_CLASS),
        created=epoch_seconds(created),
    )
