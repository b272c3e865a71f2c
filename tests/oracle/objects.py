"""Small manifests, a small catalogue and plans by hand, for the tests of the judge."""

from __future__ import annotations

from collections import Counter
from typing import Any

Object = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PRICES = {"small": 0.1, "large": 0.4}
CATALOGUE: Object = {
    "instanceTypes": [
        {
            "name": name,
            "requirements": {"kubernetes.io/arch": ["amd64"], "kubernetes.io/os": ["linux"], "size": [name]},
            "capacity": {"cpu": cores, "memory": "16Gi", "pods": "20"},
            "overhead": {"cpu": "100m"},
            "offerings": [
                {"zone": zone, "capacityType": kind, "price": PRICES[name] * (1 if kind == "on-demand" else 0.5)}
                for zone in "abc"
                for kind in ("on-demand", "spot")
            ],
        }
        for name, cores in (("small", "2"), ("large", "8"))
    ]
}


def pool(name: str = "default", *needs: Object, spec: Object | None = None, **template: Any) -> Object:
    """A NodePool of on-demand nodes."""
    requirements = [within(CAPACITY_TYPE, "on-demand"), *needs]
    body = {"template": {"spec": {"requirements": requirements, **template}}, **(spec or {})}
    return {"kind": "NodePool", "metadata": {"name": name}, "spec": body}


def within(key: str, *values: str) -> Object:
    """A requirement In."""
    return {"key": key, "operator": "In", "values": list(values)}


def pod(name: str = "p", cpu: str = "1", node: str = "", labels: Object | None = None, **spec: Any) -> Object:
    """A pod of app ``web``, which runs on ``node`` or waits."""
    ports = spec.pop("ports", [])
    body = {"containers": [{"resources": {"requests": {"cpu": cpu}}, "ports": ports}], **spec}
    if node:
        body["nodeName"] = node
    return {"kind": "Pod", "metadata": {"name": name, "labels": labels or {"app": "web"}}, "spec": body}


def spread(key: str = ZONE, **more: Any) -> Object:
    """A constraint over the pods of app ``web``, as a part of a pod's spec."""
    rule = {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **more}
    return {"topologySpreadConstraints": [{"labelSelector": {"matchLabels": {"app": "web"}}, **rule}]}


def affinity(kind: str, *terms: tuple[str, str]) -> Object:
    """Required terms (key, app) of podAffinity or podAntiAffinity, as a part of a pod's spec."""
    declaration = [{"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}} for key, app in terms]
    return {"affinity": {kind: {REQUIRED: declaration}}}


def node(name: str = "n", cpu: str = "4", zone: str | None = "a", spec: Object | None = None, **labels: Any) -> Object:
    """A node."""
    entries = {HOST: name, "kubernetes.io/arch": "amd64", **labels, **({ZONE: zone} if zone else {})}
    room = {"cpu": cpu, "memory": "16Gi", "pods": "20"}
    status = {"allocatable": room, "capacity": room}
    return {"kind": "Node", "metadata": {"name": name, "labels": entries}, "spec": spec or {}, "status": status}


def daemon(cpu: str = "500m", **spec: Any) -> Object:
    """A DaemonSet."""
    ports = spec.pop("ports", [])
    body = {"containers": [{"resources": {"requests": {"cpu": cpu}}, "ports": ports}], **spec}
    return {"kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": {"template": {"spec": body}}}


def labeled_daemon(app: str) -> Object:
    """A small DaemonSet whose pods have the label ``app``."""
    small = daemon("10m")
    return {**small, "spec": {"template": {**small["spec"]["template"], "metadata": {"labels": {"app": app}}}}}


def claim(*pods: str, cpu: str | None = None, zone: str = "a", **more: Any) -> Object:
    """A right claim of a plan for pods of 1 CPU: the small type and the large one, in one zone."""
    types = more.pop("instanceTypes", ["small", "large"])
    settled = [within(CAPACITY_TYPE, "on-demand"), *([within(ZONE, zone)] if zone else [])]
    return {
        "name": f"claim-{pods[0] if pods else ''}",
        "nodePool": "default",
        "instanceTypes": types,
        "price": PRICES.get(types[0], 0.0),
        "offering": {"instanceType": types[0], "zone": zone or "a", "capacityType": "on-demand"},
        "requirements": [*settled, *more.pop("requirements", [])],
        "requests": {"cpu": cpu or str(len(pods)), "pods": str(len(pods) + more.pop("daemons", 0))},
        "pods": [f"default/{name}" for name in pods],
        **more,
    }


def plan(
    *claims: Object, on: dict[str, list[str]] | None = None, unplaced: tuple[str, ...] = (), **totals: Any
) -> Object:
    """A plan with the totals of its parts; ``on`` are pods by node."""
    placed = {name: [f"default/{pod}" for pod in pods] for name, pods in (on or {}).items()}
    count = Counter(len(claim["pods"]) for claim in claims)
    everyone = sum(size * often for size, often in count.items()) + sum(map(len, placed.values())) + len(unplaced)
    price = sum(claim["price"] for claim in claims)
    right = {"pods": everyone, "unschedulable": len(unplaced), "nodes": len(claims), "pricePerHour": price}
    return {
        "nodeClaims": list(claims),
        "existingNodes": [{"name": name, "pods": pods} for name, pods in placed.items()],
        "unschedulable": [{"pod": f"default/{name}", "reason": "it is too large"} for name in unplaced],
        "totals": {**right, "lowerBoundPricePerHour": 0.0, **totals},
    }
