"""The pods that a CapacityBuffer stands for: how many, and what each requests. They are never created in a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenon.apis.capacitybuffer import CapacityBufferSpec
from tenon.apis.json_object import JsonObject
from tenon.kube import object_json
from tenon.kube.requests import effective_requests
from tenon.kube.structs import PodSpec, read
from tenon.resources import Resources, parse_resources

LOWEST_PRIORITY = -(2**31)
FAKE_POD = "karpenter.sh/capacity-buffer-fake-pod"
BUFFER_NAME = "karpenter.sh/capacity-buffer-name"
BUFFER_NAMESPACE = "karpenter.sh/capacity-buffer-namespace"


def buffer_size(spec: CapacityBufferSpec, unit: Resources, replicas: int | None) -> int:
    """Return how many pods the buffer reserves capacity for.

    Args:
        spec: the buffer's spec. Without replicas and percentage, only its limits decide.
        unit: what one of the pods requests.
        replicas: the replicas of the workload that the buffer follows; None if it follows none.
    """
    sizes = [spec.replicas] if spec.replicas is not None else []
    if spec.percentage is not None and replicas is not None:
        sizes.append(max(1, -(-replicas * spec.percentage // 100)))
    limits = parse_resources(spec.limits)
    within = [limits[name] // unit[name] for name in limits if unit.get(name, 0) > 0]
    if not sizes:
        return min(within, default=0)
    return min([max(sizes), *within])


def unit_requests(template: Mapping[str, Any]) -> Resources:
    """Return what one pod of a template requests. Limits apply where requests are not set."""
    spec = _without_nulls(template.get("spec") or {})
    spec["overhead"] = _stated(spec.get("overhead"))
    for part in ("containers", "initContainers"):
        spec[part] = [_with_requests(container) for container in spec.get(part) or ()]
    return effective_requests(read(spec, PodSpec))


def buffer_pod(name: str, namespace: str, template: Mapping[str, Any], number: int) -> JsonObject:
    """Build pod ``number`` of the buffer ``name`` from the template.

    Leave out volumes that would have to be provisioned.
    """
    template_metadata = template.get("metadata") or {}
    left_out = ("nodeName", "priorityClassName")
    spec = _without_nulls({key: value for key, value in template["spec"].items() if key not in left_out})
    for part in ("containers", "initContainers"):
        if spec.get(part):
            spec[part] = [_with_requests(container) for container in spec[part]]
    if spec.get("volumes"):
        spec["volumes"] = [
            volume
            for volume in spec["volumes"]
            if not volume.get("persistentVolumeClaim") and not volume.get("ephemeral")
        ]
    marks = {FAKE_POD: "true", BUFFER_NAME: name, BUFFER_NAMESPACE: namespace}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"capacity-buffer-{name}-{number}",
            "namespace": namespace,
            "labels": template_metadata.get("labels") or {},
            "annotations": {**(template_metadata.get("annotations") or {}), **marks},
        },
        "spec": {**spec, "priority": LOWEST_PRIORITY},
    }


def buffer_of(pod: Mapping[str, Any]) -> str:
    """Return the buffer (``namespace/name``) of a pod made by `buffer_pod`; empty for any other pod."""
    marks = object_json.annotations(pod)
    return f"{marks.get(BUFFER_NAMESPACE)}/{marks.get(BUFFER_NAME)}" if marks.get(FAKE_POD) == "true" else ""


def _with_requests(container: Mapping[str, Any]) -> JsonObject:
    """Use limits where requests are not set, as the API server does on admission."""
    needs = container.get("resources") or {}
    stated_amounts = {**_stated(needs.get("limits")), **_stated(needs.get("requests"))}
    if stated_amounts == (needs.get("requests") or {}):
        return dict(container)
    return {**container, "resources": {**needs, "requests": stated_amounts}}


def _without_nulls(spec: Mapping[str, Any]) -> JsonObject:
    """Drop nulls from the pod-level resources.

    Do not default their requests here: a pod-level limit is a request only for resources that no container requests.
    """
    needs = spec.get("resources")
    if not needs:
        return dict(spec)
    return {**spec, "resources": {**needs, **{part: _stated(needs[part]) for part in needs if part != "claims"}}}


def _stated(amounts: Mapping[str, Any] | None) -> JsonObject:
    """Drop nulls, which mean the same as absent values."""
    return {name: amount for name, amount in (amounts or {}).items() if amount is not None}
