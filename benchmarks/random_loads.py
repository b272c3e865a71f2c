"""Draws realistic random loads: a few hundred pods of 5 to 40 kinds, most of them with few or no constraints."""

from __future__ import annotations

from random import Random
from typing import Any

from benchmarks.random_capacity import ARCH, CAPACITY_TYPE, HOST, ZONE

Object = dict[str, Any]

PODS = 400
CORES = ((50, 2), (100, 5), (250, 6), (500, 6), (1000, 5), (2000, 3), (4000, 2), (8000, 1))
"""Millicores and their relative frequency."""
GIB_PER_CORE = (0.5, 1, 2, 2, 4, 4, 6, 8)


def load(draw: Random, pods: int = PODS) -> list[Object]:
    """Draw a NodePool over the whole catalogue, up to two DaemonSets, and Deployments with ``pods`` pods in total."""
    kinds = draw.randint(5, min(40, pods))
    sizes = [1] * kinds
    shares = [draw.expovariate(1) for _ in range(kinds)]
    for domain_candidate in draw.choices(range(kinds), weights=shares, k=pods - kinds):
        sizes[domain_candidate] += 1
    capacity = draw.choice((["on-demand"], ["on-demand"], ["spot"], ["spot", "on-demand"]))
    needs = [_in(CAPACITY_TYPE, capacity), _in(ARCH, draw.choice((["amd64"], ["amd64", "arm64"])))]
    agents = [_daemonset(draw, number) for number in range(draw.choice((0, 1, 2)))]
    return [_pool(needs), *agents, *(_deployment(draw, number, size) for number, size in enumerate(sizes))]


def _pool(needs: list[Object]) -> Object:
    node_class = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    spec = {"template": {"spec": {"requirements": needs, "nodeClassRef": node_class}}}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}, "spec": spec}


def _daemonset(draw: Random, number: int) -> Object:
    requests = {"cpu": draw.choice(("25m", "50m", "100m")), "memory": draw.choice(("64Mi", "128Mi", "256Mi"))}
    entries = {"agent": str(number)}
    spec = {"tolerations": [{"operator": "Exists"}], "containers": [_container(requests)]}
    body = {"selector": {"matchLabels": entries}, "template": {"metadata": {"labels": entries}, "spec": spec}}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": f"agent-{number}"}, "spec": body}


def _deployment(draw: Random, number: int, size: int) -> Object:
    cores = draw.choices([cores for cores, _ in CORES], weights=[often for _, often in CORES])[0]
    memory = max(64, round(cores * 1.024 * draw.choice(GIB_PER_CORE)))
    entries = {"app": f"app-{number}"}
    spec: Object = {"containers": [_container({"cpu": f"{cores}m", "memory": f"{memory}Mi"})]}
    chance = draw.random()
    if chance < 0.15:
        spec["topologySpreadConstraints"] = [_spread(ZONE, entries)]
    elif chance < 0.2:
        spec["topologySpreadConstraints"] = [_spread(HOST, entries) | {"maxSkew": max(2, size // 4)}]
    elif chance < 0.25 and size <= 12:
        term = {"topologyKey": HOST, "labelSelector": {"matchLabels": entries}}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    elif chance < 0.3:
        spec["nodeSelector"] = {ARCH: "amd64"}
    body = {"replicas": size, "selector": {"matchLabels": entries}}
    body["template"] = {"metadata": {"labels": entries}, "spec": spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": entries["app"]}, "spec": body}


def _container(manifest: Object) -> Object:
    return {"name": "main", "resources": {"requests": manifest}}


def _spread(key: str, manifest: Object) -> Object:
    selector = {"matchLabels": manifest}
    return {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}


def _in(key: str, values: list[str]) -> Object:
    return {"key": key, "operator": "In", "values": values}
