"""The objects of metrics.k8s.io/v1beta1, and those that register its server with the API server."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.metrics import API_SERVICE, GROUP_VERSION, SERVICE, SERVICE_NAMESPACE
from sandbox.metrics.usage import Use
from tenon.kube.structs import Object

Document = dict[str, Any]

WINDOW = "1s"
"""The averaging window. An autoscaler ignores samples from before a pod was ready for this long."""


def resources() -> Document:
    """The APIResourceList for discovery."""
    pods = {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"]}
    nodes = {**pods, "name": "nodes", "singularName": "node", "namespaced": False, "kind": "NodeMetrics"}
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": GROUP_VERSION, "resources": [nodes, pods]}


def pod_metrics(pod: Object, uses: Sequence[Use], now: str) -> Document:
    """The PodMetrics of one pod."""
    containers = [{"name": use.container, "usage": _quantities(use.millicores, use.memory)} for use in uses]
    return {**_metrics("PodMetrics", pod, now), "containers": containers}


def node_metrics(node: Object, uses: Sequence[Use], now: str) -> Document:
    """The NodeMetrics of one node: the sum over its pods."""
    together = _quantities(sum(use.millicores for use in uses), sum(use.memory for use in uses))
    return {**_metrics("NodeMetrics", node, now), "usage": together}


def listed(kind: str, items: Sequence[Document]) -> Document:
    """A list object of this kind."""
    return {"kind": f"{kind}List", "apiVersion": GROUP_VERSION, "metadata": {}, "items": list(items)}


def not_found(what: str) -> Document:
    """The Status for an object without metrics."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": "NotFound",
        "code": 404,
        "message": f"{what} has no metrics: only running objects have them",
    }


def registration(port: int, authority: bytes) -> list[Document]:
    """The Service and the APIService through which the API server reaches this server, by name and on this machine."""
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
