"""Short spellings of Kubernetes objects for tests of the cache."""

from __future__ import annotations

import itertools
import json
from typing import Any

from worker.cache.decode import decode_daemonset, decode_node, decode_object, decode_pod
from worker.cache.records import DaemonRecord, NodeRecord, ObjectRecord, PodRecord

_versions = itertools.count(1)

UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def metadata(name: str, **extra: Any) -> dict[str, Any]:
    found = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(next(_versions)), **extra}
    found.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
    return found


def container(cpu: str = "", **extra: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {"cpu": cpu} if cpu else {}}, **extra}


def pod(name: str = "p", *, cpu: str = "1", meta: Any = None, status: Any = None, **spec: Any) -> PodRecord:
    body = {
        "metadata": metadata(name, **{"namespace": "ns", "managedFields": [{"x": {}}], **(meta or {})}),
        "spec": {"containers": [container(cpu)], **spec},
        "status": status or {},
    }
    return decode_pod(json.dumps(body).encode())


def waiting(name: str = "p", **options: Any) -> PodRecord:
    status = {"phase": "Pending", "conditions": [UNSCHEDULABLE], **options.pop("status", {})}
    return pod(name, status=status, **options)


def running(name: str, node: str, *, since: str = "2026-01-01T00:00:00Z", **options: Any) -> PodRecord:
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": since}
    status = {"phase": "Running", "conditions": [bound], **options.pop("status", {})}
    return pod(name, nodeName=node, status=status, **options)


def owned_by(kind: str, uid: str = "owner") -> dict[str, Any]:
    return {"ownerReferences": [{"kind": kind, "uid": uid, "controller": True, "name": "o", "apiVersion": "v1"}]}


def node(name: str = "n", *, meta: Any = None, cpu: str = "4", **spec: Any) -> NodeRecord:
    spec.setdefault("providerID", f"aws:///us-west-2a/i-{name}")
    quantities = {"cpu": cpu, "pods": "10"}
    body = {
        "metadata": metadata(name, **(meta or {})),
        "spec": spec,
        "status": {
            "capacity": quantities,
            "allocatable": quantities,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    return decode_node(json.dumps(body).encode())


def claim(
    name: str = "claim",
    *,
    meta: Any = None,
    node_name: str = "n",
    status: Any = None,
    initialized: str = "",
    **spec: Any,
) -> ObjectRecord:
    meta = {"labels": {"karpenter.sh/nodepool": "pool"}, **(meta or {})}
    conditions = [{"type": "Initialized", "status": "True", "lastTransitionTime": initialized}] if initialized else []
    known = {"providerID": f"aws:///us-west-2a/i-{node_name}", "conditions": conditions} if node_name else {}
    return decode_object(
        json.dumps({"metadata": metadata(name, **meta), "spec": spec, "status": {**known, **(status or {})}}).encode()
    )


def daemonset(name: str = "ds", *, cpu: str = "100m", **spec: Any) -> DaemonRecord:
    template = {"metadata": {"labels": {}}, "spec": {"containers": [container(cpu)], **spec}}
    body = {"metadata": metadata(name, namespace="kube-system"), "spec": {"template": template}}
    return decode_daemonset(json.dumps(body).encode())
