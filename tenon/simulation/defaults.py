"""Adds what a live cluster would have added to objects from files: readiness, UIDs, priorities and the current time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tenon.apis.json_object import JsonObject, field_at
from tenon.apis.kubelet import expressions_in
from tenon.ec2.nodeclass.expressions_check import expressions_are_off
from tenon.kube.requirements import hint
from tenon.kube.timestamps import parse_instant
from tenon.manifests.faults import Source
from tenon.simulation.admission import admitted
from tenon.simulation.objects import Objects, SourcedObject
from tenon.simulation.volumes import complete_bindings

READY = {"type": "Ready", "status": "True", "reason": "Ready", "lastTransitionTime": "1970-01-01T00:00:00Z"}
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
"""The time of an input that names none."""
_FORETELLING = frozenset({"DisruptionFreeze", "NodeSchedule", "EC2NodeClass"})
"""Kinds whose status names times to come, such as the end of a capacity reservation."""


def newest_instant(objects: Objects) -> datetime:
    """Return the newest time at which something happened to an object of the input, or the epoch if there is none.

    It comes from the status and from what the API server writes into the metadata. Annotations are not read, because
    many name a time to come: when a node may leave, or when a preview environment expires.
    """
    newest = BEGINNING
    for item in objects.all():
        metadata = item.body.get("metadata")
        times = [field_at(metadata, "creationTimestamp"), field_at(metadata, "managedFields")]
        if item.kind not in _FORETELLING:
            times.append(item.body.get("status"))
        for text in _texts(times):
            newest = max(newest, parse_instant(text) or newest)
        newest = max(newest, _deleted_at(metadata) or newest)
    return newest


def _deleted_at(metadata: Any) -> datetime | None:
    """When the deletion was requested: the API server adds the grace period to the deletionTimestamp."""
    ends = parse_instant(field_at(metadata, "deletionTimestamp"))
    seconds = field_at(metadata, "deletionGracePeriodSeconds")
    if ends is None or not isinstance(seconds, int):
        return ends
    try:
        return ends - timedelta(seconds=seconds)
    except OverflowError:
        return None


def _texts(values: list[Any]) -> Iterator[str]:
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, str) and _INSTANT.fullmatch(value):
            yield value


def fill_in(objects: Objects, *, expressions: bool = False) -> None:
    """Add missing node classes, readiness, UIDs, pod priorities and bindings of volume claims.

    Args:
        objects: the objects of the input, without faults.
        expressions: whether the kubelet settings of a class may contain expressions.
    """
    _node_classes(objects, expressions)
    complete_bindings(objects)
    for item in objects.all():
        metadata = item.body["metadata"]
        if not metadata.get("uid"):
            item.body["metadata"] = {**metadata, "uid": f"{item.kind}/{item.key}"}
    _priorities(objects)
    for pod in objects.of("Pod"):
        pod.body["spec"] = admitted(pod.body)["spec"]


def _node_classes(objects: Objects, expressions: bool) -> None:
    """Treat a class without status conditions as ready, and add a ready default for a class that no file contains."""
    classes = objects.by_kind.setdefault("EC2NodeClass", {})
    class_names = frozenset(classes)
    for item in list(classes.values()):
        computed = expressions_in(item.body["spec"].get("kubelet") or {})
        status = item.body.get("status") or {}
        if not status.get("conditions"):
            conditions = [READY] if expressions or not computed else [_without_expressions(computed)]
            filled = {**item.body, "status": {**status, "conditions": conditions}}
            classes[item.key] = SourcedObject(item.kind, filled, item.source)
    for pool in objects.of("NodePool"):
        name = pool.body["spec"]["template"]["spec"]["nodeClassRef"]["name"]
        if class_names and name not in class_names:
            assumed = "the simulation assumes one with default settings"
            objects.note(
                f"NodePool {pool.name}: EC2NodeClass {name} is not in the input{hint(name, class_names)}: {assumed}"
            )
        if name not in classes:
            classes[name] = SourcedObject("EC2NodeClass", default_class(name), Source("default"))


def _without_expressions(computed: Mapping[str, str]) -> JsonObject:
    """The condition that a worker sets on a class that uses expressions while their feature gate is off."""
    return {
        "type": "ValidationSucceeded",
        "status": "False",
        "reason": "KubeletExpressionsDisabled",
        "message": expressions_are_off(computed),
        "lastTransitionTime": READY["lastTransitionTime"],
    }


def default_class(name: str) -> JsonObject:
    """Return a ready EC2NodeClass with minimal settings."""
    everything = [{"tags": {"karpenter.sh/discovery": "*"}}]
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": name},
        "spec": {
            "role": "default",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": everything,
            "securityGroupSelectorTerms": everything,
        },
        "status": {"conditions": [READY]},
    }


def _priorities(objects: Objects) -> None:
    """Set the priority of pods that have none, from their PriorityClass or else from the global default."""
    values = {item.name: int(item.body["value"]) for item in objects.of("PriorityClass")}
    for_all = max((values[f.name] for f in objects.of("PriorityClass") if f.body.get("globalDefault")), default=0)
    if not values:
        return
    for item in objects.of("Pod"):
        spec = item.body["spec"]
        if spec.get("priority") is None:
            item.body["spec"] = {**spec, "priority": values.get(spec.get("priorityClassName") or "", for_all)}


def namespace_labels(objects: Objects) -> dict[str, dict[str, str]]:
    """Labels of every namespace that the input defines or uses, including the name label that Kubernetes adds."""
    labels_by_namespace = {
        space.name: dict(space.body["metadata"].get("labels") or {}) for space in objects.of("Namespace")
    }
    for pod in (*objects.of("Pod"), *objects.of("DaemonSet")):
        labels_by_namespace.setdefault(pod.namespace, {})
    return {
        name: {**labels_by_namespace[name], "kubernetes.io/metadata.name": name} for name in sorted(labels_by_namespace)
    }
