"""Short spellings of Kubernetes objects for tests of the cache."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

from tenon.kube.claim_record import ClaimRecord
from tenon.kube.decode import decode_node, decode_nodeclaim
from tenon.kube.pod_decode import decode_daemonset, decode_pod
from tenon.kube.pod_disruption_budgets import decode_pdb
from tenon.kube.records import DaemonRecord, NodeRecord, PodRecord
from tenon.kube.storage_decode import (
    decode_class,
    decode_csi_driver,
    decode_csi_node,
    decode_namespace,
    decode_pvc,
    decode_volume,
)

_versions = itertools.count(1)

UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def metadata(name: str, **extra: Any) -> dict[str, Any]:
    result = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(next(_versions)), **extra}
    result.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
    return result


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
    status = {"phase": "Running", "startTime": since, "conditions": [bound], **options.pop("status", {})}
    return pod(name, nodeName=node, status=status, **options)


def owned_by(kind: str, uid: str = "owner") -> dict[str, Any]:
    return {"ownerReferences": [{"kind": kind, "uid": uid, "controller": True, "name": "o", "apiVersion": "v1"}]}


def node(
    name: str = "n", *, meta: Any = None, cpu: str = "4", conditions: Sequence[Any] = (), **spec: Any
) -> NodeRecord:
    spec.setdefault("providerID", f"aws:///us-west-2a/i-{name}")
    quantities = {"cpu": cpu, "pods": "10"}
    body = {
        "metadata": metadata(name, **(meta or {})),
        "spec": spec,
        "status": {
            "capacity": quantities,
            "allocatable": quantities,
            "conditions": [{"type": "Ready", "status": "True"}, *conditions],
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
) -> ClaimRecord:
    meta = {"labels": {"karpenter.sh/nodepool": "pool"}, **(meta or {})}
    conditions = [{"type": "Initialized", "status": "True", "lastTransitionTime": initialized}] if initialized else []
    entries = {"providerID": f"aws:///us-west-2a/i-{node_name}", "conditions": conditions} if node_name else {}
    return decode_nodeclaim(
        json.dumps({"metadata": metadata(name, **meta), "spec": spec, "status": {**entries, **(status or {})}}).encode()
    )


def daemonset(name: str = "ds", *, cpu: str = "100m", **spec: Any) -> DaemonRecord:
    template = {"metadata": {"labels": {}}, "spec": {"containers": [container(cpu)], **spec}}
    body = {"metadata": metadata(name, namespace="kube-system"), "spec": {"template": template}}
    return decode_daemonset(json.dumps(body).encode())


def mounting(*pvcs: str) -> list[dict[str, Any]]:
    """The volumes of a pod with these PVCs."""
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in pvcs]


def ephemeral(**spec: Any) -> list[dict[str, Any]]:
    """The volumes of a pod whose one PVC is made with it."""
    return [{"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]


def pvc(name: str = "data", *, meta: Any = None, phase: str = "Bound", **spec: Any) -> Any:
    done = {"pv.kubernetes.io/bind-completed": "yes"} if spec.get("volumeName") else {}
    meta = {"namespace": "ns", "annotations": done, **(meta or {})}
    body = {"metadata": metadata(name, **meta), "spec": spec, "status": {"phase": phase}}
    return decode_pvc(json.dumps(body).encode())


def volume(name: str = "vol", *zones: str, meta: Any = None, **spec: Any) -> Any:
    terms = [
        {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [z]}]} for z in zones
    ]
    spec = {"csi": {"driver": "ebs.csi.aws.com"}, **spec}
    if terms:
        spec.setdefault("nodeAffinity", {"required": {"nodeSelectorTerms": terms}})
    return decode_volume(json.dumps({"metadata": metadata(name, **(meta or {})), "spec": spec}).encode())


def storage_class(name: str = "waits", *zones: str, meta: Any = None, **fields: Any) -> Any:
    fields.setdefault("provisioner", "ebs.csi.aws.com")
    fields.setdefault("volumeBindingMode", "WaitForFirstConsumer")
    if zones:
        values = [{"key": "topology.kubernetes.io/zone", "values": list(zones)}]
        fields.setdefault("allowedTopologies", [{"matchLabelExpressions": values}])
    return decode_class(json.dumps({"metadata": metadata(name, **(meta or {})), **fields}).encode())


def default_class(name: str, *zones: str, created: str = "2026-01-01T00:00:00Z") -> Any:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    return storage_class(name, *zones, meta={"annotations": annotations, "creationTimestamp": created})


def csi_driver(name: str = "ebs.csi", *, required: bool = True) -> Any:
    spec = {"preventPodSchedulingIfMissing": required}
    return decode_csi_driver(json.dumps({"metadata": metadata(name), "spec": spec}).encode())


def csi_node(name: str = "n", **counts: int | None) -> Any:
    drivers = [{"name": f"{driver}.csi", "allocatable": {"count": count}} for driver, count in counts.items()]
    return decode_csi_node(json.dumps({"metadata": metadata(name), "spec": {"drivers": drivers}}).encode())


def namespace(name: str, **labels: str) -> Any:
    return decode_namespace(json.dumps({"metadata": metadata(name, labels=labels)}).encode())


def budget(
    name: str = "keep",
    *,
    meta: Any = None,
    app: str | None = "web",
    disruptions_allowed: int | None = None,
    **spec: Any,
) -> Any:
    if app is not None:
        spec["selector"] = {"matchLabels": {"app": app}}
    body = {"metadata": metadata(name, **{"namespace": "ns", **(meta or {})}), "spec": spec}
    if disruptions_allowed is not None:
        body["status"] = {"disruptionsAllowed": disruptions_allowed}
    return decode_pdb(json.dumps(body).encode())
