"""The objects of metrics.k8s.io/v1beta1, and those that tell the API server who serves them."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.metrics import API_SERVICE, GROUP_VERSION, SERVICE, SERVICE_NAMESPACE
from sandbox.metrics.usage import Object, Use

Document = dict[str, Any]

WINDOW = "1s"
"""Over which a figure is an average. An autoscaler passes over what was measured before a pod was ready for so long."""


def resources() -> Document:
    """What discovery finds."""
    pods = {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"]}
    nodes = {**pods, "name": "nodes", "singularName": "node", "namespaced": False, "kind": "NodeMetrics"}
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": GROUP_VERSION, "resources": [nodes, pods]}


def pod_metrics(pod: Object, uses: Sequence[Use], now: str) -> Document:
    """One pod's use."""
    containers = [{"name": use.container, "usage": _quantities(use.millicores, use.memory)} for use in uses]
    return {**_metrics("PodMetrics", pod, now), "containers": containers}


def node_metrics(node: Object, uses: Sequence[Use], now: str) -> Document:
    """One node's use: that of its pods."""
    together = _quantities(sum(use.millicores for use in uses), sum(use.memory for use in uses))
    return {**_metrics("NodeMetrics", node, now), "usage": together}


def listed(kind: str, items: Sequence[Document]) -> Document:
    """A list of such objects."""
    return {"kind": f"{kind}List", "apiVersion": GROUP_VERSION, "metadata": {}, "items": list(items)}


def not_found(what: str) -> Document:
    """The Status of something that is not measured."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": "NotFound",
        "code": 404,
        "message": f"{what} is not measured: only what runs is",
    }


def registration(port: int, authority: bytes) -> list[Document]:
    """The Service and the APIService by which the API server reaches this one: by name, on this machine."""
    group, version = GROUP_VERSION.split("/")
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": SERVICE, "namespace": SERVICE_NAMESPACE},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": API_SERVICE},
            "spec": {
                "group": group,
                "version": version,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "caBundle": base64.b64encode(authority).decode(),
                "service": {"name": SERVICE, "namespace": SERVICE_NAMESPACE, "port": port},
            },
        },
    ]


def _metrics(kind: str, measured: Object, now: str) -> Document:
    metadata: Mapping[str, Any] = measured["metadata"]
    kept = {key: metadata[key] for key in ("name", "namespace", "labels") if metadata.get(key)}
    return {
        "kind": kind,
        "apiVersion": GROUP_VERSION,
        "metadata": {**kept, "creationTimestamp": now},
        "timestamp": now,
        "window": WINDOW,
    }


def _quantities(millicores: int, memory: int) -> dict[str, str]:
    return {"cpu": f"{millicores}m", "memory": f"{-(-memory // 1024)}Ki"}
