"""Draws random capacity for plans: instance types, NodePools, nodes, DaemonSets and volumes."""

from __future__ import annotations

from random import Random
from typing import Any

Object = dict[str, Any]

ZONES = ("zone-a", "zone-b", "zone-c")
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
ARCH = "kubernetes.io/arch"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
FAMILY = "karpenter.k8s.aws/instance-family"
CORES = "karpenter.k8s.aws/instance-cpu"
TEAM = "team"
TEAMS = ("red", "green", "blue")
GPU = "example.com/gpu"
DRIVER = "ebs.csi.aws.com"
FAMILIES = {"c": (2, 0.04, "amd64"), "m": (4, 0.05, "amd64"), "r": (8, 0.065, "amd64"), "g": (3, 0.034, "arm64")}
"""GiB per CPU, dollars per hour per CPU, and architecture of each family."""


def catalogue(draw: Random) -> Object:
    """Draw a small catalogue that lacks some zones, capacity types and sizes."""
    entries = []
    gaps = draw.choice((0.0, 0.0, 0.15, 0.4))
    for family, (gib, price, arch) in FAMILIES.items():
        for cores in (2, 4, 8, 16, 48):
            if draw.random() < gaps / 2:
                continue
            offers = [
                {"zone": zone, "capacityType": kind, "price": round(cores * price * share * draw.uniform(0.9, 1.2), 4)}
                for zone in ZONES
                for kind, share in (("on-demand", 1.0), ("spot", 0.4))
                if draw.random() >= gaps
            ]
            for offer in offers:
                if draw.random() < gaps / 3:
                    offer["available"] = False
            entries.append(_entry(family, cores, cores * gib, arch, offers))
    if draw.random() < 0.4:
        offers = [{"zone": zone, "capacityType": "on-demand", "price": 3.1} for zone in ZONES[:2]]
        entries.append(_entry("x", 8, 64, "amd64", offers, {GPU: "4"}))
    return {"instanceTypes": entries}


def _entry(
    family: str, cores: int, gib: int, arch: str, offers: list[Object], more: dict[str, str] | None = None
) -> Object:
    return {
        "name": f"{family}{cores}",
        "requirements": {
            ARCH: [arch],
            "kubernetes.io/os": ["linux"],
            FAMILY: [family],
            CORES: [str(cores)],
            "karpenter.k8s.aws/instance-gpu-name": ["yes"] if more else [],
        },
        "capacity": {"cpu": str(cores), "memory": f"{gib}Gi", "pods": str(10 + cores), **(more or {})},
        "overhead": {"cpu": "100m", "memory": "300Mi"},
        "offerings": offers,
    }


def pools(draw: Random) -> list[Object]:
    """Draw one to three NodePools."""
    count = draw.choice((1, 1, 2, 2, 3))
    return [pool(draw, f"pool-{number}", only=count == 1) for number in range(count)]


def pool(draw: Random, name: str, *, only: bool) -> Object:
    """Draw a NodePool that uses a random selection of its fields."""
    needs: list[Object] = []
    if draw.random() < 0.3:
        needs.append(_in(ZONE, draw.sample(ZONES, draw.randint(1, 2))))
    if draw.random() < 0.4:
        needs.append(_in(CAPACITY_TYPE, draw.choice((["on-demand"], ["spot"], ["on-demand", "spot"]))))
    if draw.random() < 0.3:
        needs.append(_in(ARCH, ["amd64"]))
    if draw.random() < 0.15:
        needs.append({"key": CORES, "operator": draw.choice(("Gt", "Lt")), "values": [draw.choice(("4", "8", "16"))]})
    if draw.random() < 0.15:
        needs.append({"key": FAMILY, "operator": "NotIn", "values": [draw.choice(tuple(FAMILIES))]})
    if draw.random() < 0.15:
        key, least = draw.choice(((FAMILY, 2), (FAMILY, 3), (CORES, 2), ("node.kubernetes.io/instance-type", 3)))
        needs.append({"key": key, "operator": "Exists", "minValues": least})
    template: Object = {"spec": {"requirements": needs, "nodeClassRef": _node_class()}}
    team = draw.random()
    if team < 0.35:
        needs.append(_in(TEAM, draw.sample(TEAMS, draw.randint(1, 3))))
    elif team < 0.45:
        needs.append({"key": TEAM, "operator": "Exists"})
    elif team < 0.65:
        template["metadata"] = {"labels": {TEAM: draw.choice(TEAMS)}}
    if draw.random() < (0.1 if only else 0.3):
        effect = draw.choice(("NoSchedule", "NoExecute", "PreferNoSchedule"))
        template["spec"]["taints"] = [{"key": "dedicated", "value": draw.choice(("x", "y")), "effect": effect}]
    if draw.random() < 0.2:
        template["spec"]["startupTaints"] = [{"key": "starting", "effect": "NoSchedule"}]
    spec: Object = {"template": template}
    if draw.random() < 0.5:
        spec["weight"] = draw.choice((1, 10, 50))
    if draw.random() < 0.3:
        spec["limits"] = draw.choice(
            (
                {"cpu": "8"},
                {"cpu": "40"},
                {"memory": "64Gi"},
                {"nodes": "1"},
                {"nodes": "4"},
                {"cpu": "60", "nodes": "3"},
            )
        )
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec}


def nodes(draw: Random, among: list[Object], running: list[Object]) -> list[Object]:
    """Draw up to four nodes, some of which belong to a NodePool. Pods bound to them are added to ``running``."""
    result = []
    for number in range(draw.choice((0, 0, 1, 2, 3, 4))):
        name, cores = f"node-{number}", draw.choice((2, 4, 8))
        entries = {HOST: name, ZONE: draw.choice(ZONES), ARCH: draw.choice(("amd64", "amd64", "arm64"))}
        entries |= {"kubernetes.io/os": "linux", CAPACITY_TYPE: draw.choice(("spot", "on-demand")), CORES: str(cores)}
        if draw.random() < 0.4:
            entries[TEAM] = draw.choice(TEAMS)
        if draw.random() < 0.1:
            del entries[ZONE]
        if draw.random() < 0.5:
            entries["karpenter.sh/nodepool"] = draw.choice(among)["metadata"]["name"]
        spec: Object = {}
        if draw.random() < 0.2:
            effect = draw.choice(("NoSchedule", "PreferNoSchedule"))
            spec["taints"] = [{"key": "dedicated", "value": draw.choice(("x", "y")), "effect": effect}]
        if draw.random() < 0.08:
            spec["unschedulable"] = True
        room = {"cpu": str(cores), "memory": f"{cores * 4}Gi", "pods": str(draw.choice((4, 20, 20)))}
        status = {"allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": "True"}]}
        metadata = {"name": name, "labels": entries}
        result.append({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status})
        running += [_bound(draw, name, turn) for turn in range(draw.choice((0, 1, 1, 3)))]
        if draw.random() < 0.2:
            drivers = [{"name": DRIVER, "nodeID": name, "allocatable": {"count": draw.choice((0, 1, 2))}}]
            driven: Object = {"metadata": {"name": name}, "spec": {"drivers": drivers}}
            result.append({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", **driven})
    return result


def _bound(draw: Random, node: str, turn: int) -> Object:
    requests = {"cpu": draw.choice(("100m", "500m", "1")), "memory": draw.choice(("128Mi", "1Gi"))}
    spec: Object = {"nodeName": node, "containers": [{"name": "main", "resources": {"requests": requests}}]}
    app = f"app-{draw.randint(0, 3)}"
    if draw.random() < 0.15:
        term = {"topologyKey": draw.choice((ZONE, HOST)), "labelSelector": {"matchLabels": {"app": app}}}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    if draw.random() < 0.1:
        spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": draw.choice((8080, 9090))}]
    metadata = {
        "name": f"{node}-pod-{turn}",
        "namespace": draw.choice(("default", "default", "other")),
        "labels": {"app": app, "tier": draw.choice(("front", "back"))},
    }
    ended = draw.random() < 0.05
    status = {"phase": "Succeeded" if ended else "Running"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def daemons(draw: Random) -> list[Object]:
    """Draw up to two DaemonSets."""
    result = []
    for number in range(draw.choice((0, 0, 1, 1, 2))):
        requests = {"cpu": draw.choice(("50m", "200m", "1")), "memory": draw.choice(("64Mi", "512Mi"))}
        spec: Object = {"containers": [{"name": "main", "resources": {"requests": requests}}]}
        if draw.random() < 0.5:
            spec["tolerations"] = [{"operator": "Exists"}]
        if draw.random() < 0.3:
            key, value = draw.choice(((ARCH, "amd64"), (TEAM, "red"), (ZONE, ZONES[0]), (FAMILY, "m")))
            spec["nodeSelector"] = {key: value}
        elif draw.random() < 0.2:
            terms = [{"matchExpressions": [_in(FAMILY, ["c"])]}, {"matchExpressions": [_in(ARCH, ["arm64"])]}]
            required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
            spec["affinity"] = {"nodeAffinity": required}
        if draw.random() < 0.2:
            spec["containers"][0]["ports"] = [{"containerPort": 9, "hostPort": 9090}]
        metadata = {"name": f"agent-{number}"}
        template = {"metadata": {"labels": {"agent": str(number)}}, "spec": spec}
        body = {"selector": {"matchLabels": {"agent": str(number)}}, "template": template}
        result.append({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": body})
    return result


def storage() -> list[Object]:
    """Return classes, volumes and claims: bound in a zone, bound anywhere, or bound when the pod is scheduled."""
    late = {"provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"}
    only = [{"matchLabelExpressions": [{"key": "topology.ebs.csi.aws.com/zone", "values": list(ZONES[1:])}]}]
    manifests = [_storage_class("late", late), _storage_class("late-there", {**late, "allowedTopologies": only})]
    for number, zone in enumerate((*ZONES, "")):
        spec: Object = {"csi": {"driver": DRIVER, "volumeHandle": f"v{number}"}}
        if zone:
            terms = [{"matchExpressions": [_in(ZONE, [zone])]}]
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        manifests.append(
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"v{number}"}, "spec": spec}
        )
        manifests += [_claim(f"bound-{number}-{space}", space, {"volumeName": f"v{number}"}) for space in ("default",)]
    for space in ("default", "other"):
        manifests += [_claim(f"{name}-{space}", space, {"storageClassName": name}) for name in ("late", "late-there")]
    return manifests


def _storage_class(name: str, fields: Object) -> Object:
    return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}, **fields}


def _claim(name: str, namespace: str, spec: Object) -> Object:
    metadata = {"name": name, "namespace": namespace}
    status = {"phase": "Bound" if "volumeName" in spec else "Pending"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec, "status": status}


def _in(key: str, values: list[str]) -> Object:
    return {"key": key, "operator": "In", "values": values}


def _node_class() -> Object:
    return {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
