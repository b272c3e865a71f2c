"""Draws small batches of one family of scenarios each: 30 to 400 pods that state one kind of rule.

Most batches of a cluster are small, and what a plan costs depends on the kinds of rules in it. Each number of a family
always gives the same input.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from benchmarks.random_capacity import ARCH, CAPACITY_TYPE, FAMILY, HOST, ZONE
from benchmarks.random_loads import CORES, GIB_PER_CORE

Object = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
ZONES = ("us-west-2a", "us-west-2b", "us-west-2c")
GENERATION = "karpenter.k8s.aws/instance-generation"
TEAM = "example.com/team"
TEAMS = ("red", "blue")
SMALLEST, LARGEST = 30, 400


def case(family: str, number: int) -> list[Object]:
    """Draw the manifests of a case."""
    draw = Random(f"{family} {number}")
    make = FAMILIES[family]
    apps = [_deployment(draw, index, size) for index, size in enumerate(_sizes(draw))]
    return [*make(draw, apps), *apps]


def _sizes(draw: Random) -> list[int]:
    """The replicas of each Deployment."""
    pods = draw.randint(SMALLEST, LARGEST)
    sizes = [1] * draw.randint(3, 15)
    shares = [draw.expovariate(1) for _ in sizes]
    for domain_candidate in draw.choices(range(len(sizes)), weights=shares, k=pods - len(sizes)):
        sizes[domain_candidate] += 1
    return sizes


def _deployment(draw: Random, number: int, size: int) -> Object:
    cores = draw.choices([cores for cores, _ in CORES], weights=[often for _, often in CORES])[0]
    memory = max(64, round(cores * 1.024 * draw.choice(GIB_PER_CORE)))
    entries = {"app": f"app-{number}"}
    requests = {"cpu": f"{cores}m", "memory": f"{memory}Mi"}
    spec: Object = {"containers": [{"name": "main", "resources": {"requests": requests}}]}
    template = {"metadata": {"labels": entries}, "spec": spec}
    body = {"replicas": size, "selector": {"matchLabels": entries}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": entries["app"]}, "spec": body}


def plain(draw: Random, apps: list[Object]) -> list[Object]:  # noqa: ARG001 - every family has this signature
    """No rules: requests alone."""
    return [_pool(draw)]


def selectors(draw: Random, apps: list[Object]) -> list[Object]:
    """Most pods choose their nodes by labels."""
    choices = (
        (ARCH, ("amd64", "arm64")),
        (ZONE, ZONES),
        (FAMILY, ("m5", "c5", "r5", "m6g", "c6g")),
        (GENERATION, ("5", "6", "7")),
    )
    for app in apps:
        key, values = draw.choice(choices)
        kind = draw.random()
        if kind < 0.4:
            _spec(app)["nodeSelector"] = {key: draw.choice(values)}
        elif kind < 0.9:
            terms = [{"matchExpressions": [_in(key, draw.sample(values, 2))]} for _ in range(draw.choice((1, 2)))]
            _spec(app)["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    return [_pool(draw, architectures=["amd64", "arm64"])]


def affinity(draw: Random, apps: list[Object]) -> list[Object]:
    """Pods stay with their own kind or with another, or keep away from them."""
    for app in apps:
        own, other = _labels(app), _labels(draw.choice(apps))
        kind = draw.random()
        if kind < 0.25:
            _spec(app)["affinity"] = {"podAffinity": {REQUIRED: [_term(ZONE, draw.choice((own, other)))]}}
        elif kind < 0.5 and app["spec"]["replicas"] <= 40:
            _spec(app)["affinity"] = {"podAntiAffinity": {REQUIRED: [_term(HOST, own)]}}
        elif kind < 0.65:
            _spec(app)["affinity"] = {"podAntiAffinity": {REQUIRED: [_term(HOST, other)]}} if other != own else {}
    return [_pool(draw)]


def spread(draw: Random, apps: list[Object]) -> list[Object]:
    """Pods spread over zones and nodes."""
    for app in apps:
        labels = _labels(app)
        rules = []
        if draw.random() < 0.7:
            rules.append(_spread(ZONE, labels, draw.choice((1, 1, 2))))
        if draw.random() < 0.3:
            rules.append(_spread(HOST, labels, max(2, app["spec"]["replicas"] // 4)))
        if rules:
            _spec(app)["topologySpreadConstraints"] = rules
    return [_pool(draw)]


def taints(draw: Random, apps: list[Object]) -> list[Object]:
    """NodePools are tainted for teams, and pods tolerate some of them."""
    pools = [_pool(draw, "default", weight=1)]
    for team in TEAMS:
        taint = {"key": TEAM, "value": team, "effect": "NoSchedule"}
        pools.append(_pool(draw, team, taints=[taint], labels={TEAM: team}, weight=draw.choice((1, 10))))
    for app in apps:
        if draw.random() < 0.7:
            team = draw.choice(TEAMS)
            _spec(app)["tolerations"] = [{"key": TEAM, "value": team, "effect": "NoSchedule"}]
            if draw.random() < 0.5:
                _spec(app)["nodeSelector"] = {TEAM: team}
    return pools


def preferences(draw: Random, apps: list[Object]) -> list[Object]:
    """Pods prefer nodes, zones and neighbours."""
    for app in apps:
        labels, kind = _labels(app), draw.random()
        if kind < 0.4:
            wish = {
                "weight": draw.randint(1, 100),
                "preference": {"matchExpressions": [_in(ZONE, [draw.choice(ZONES)])]},
            }
            _spec(app)["affinity"] = {"nodeAffinity": {PREFERRED: [wish]}}
        elif kind < 0.7:
            rule = _spread(draw.choice((ZONE, HOST)), labels, 1)
            _spec(app)["topologySpreadConstraints"] = [rule | {"whenUnsatisfiable": "ScheduleAnyway"}]
        elif kind < 0.9:
            wish = {"weight": draw.randint(1, 100), "podAffinityTerm": _term(HOST, labels)}
            _spec(app)["affinity"] = {"podAntiAffinity": {PREFERRED: [wish]}}
    return [_pool(draw)]


def devices(draw: Random, apps: list[Object]) -> list[Object]:
    """A few kinds of pods ask for GPUs."""
    for app in apps[: draw.randint(1, 3)]:
        app["spec"]["replicas"] = min(app["spec"]["replicas"], 8)
        resources = _spec(app)["containers"][0]["resources"]
        resources["limits"] = {"nvidia.com/gpu": draw.choice(("1", "1", "2", "4"))}
    return [_pool(draw, capacity=["on-demand"])]


def limits(draw: Random, apps: list[Object]) -> list[Object]:
    """The NodePools' limits hold less than all pods."""
    requests = sum(_cores(app) * app["spec"]["replicas"] for app in apps)
    share = draw.uniform(0.4, 0.9)
    first = max(2, round(requests * share / 1000))
    pools = [_pool(draw, "default", limits={"cpu": str(first)}, weight=10)]
    if draw.random() < 0.5:
        pools.append(_pool(draw, "second", limits=draw.choice(({"memory": "64Gi"}, {"nodes": "2"}, {"cpu": "8"}))))
    return pools


def existing(draw: Random, apps: list[Object]) -> list[Object]:  # noqa: ARG001 - every family has this signature
    """Nodes with free room exist."""
    manifests: list[Object] = [_pool(draw)]
    for number in range(draw.randint(5, 40)):
        name, cores = f"node-{number}", draw.choice((4, 8, 16))
        entries = {HOST: name, ZONE: draw.choice(ZONES), ARCH: "amd64", "kubernetes.io/os": "linux"}
        room = {"cpu": str(cores), "memory": f"{4 * cores}Gi", "pods": "110"}
        status = {"allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": "True"}]}
        manifests.append(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": entries}, "status": status}
        )
        requests = {"cpu": f"{round(cores * draw.uniform(0.2, 0.9), 1)}", "memory": f"{cores}Gi"}
        spec = {"nodeName": name, "containers": [{"name": "main", "resources": {"requests": requests}}]}
        metadata = {"name": f"there-{number}", "namespace": "default"}
        running = {"phase": "Running"}
        manifests.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": running})
    return manifests


def mixed(draw: Random, apps: list[Object]) -> list[Object]:
    """Each Deployment states a rule of one of the other families."""
    for app in apps:
        make = draw.choice((plain, selectors, affinity, spread, preferences))
        make(draw, [app])
    return [_pool(draw, architectures=["amd64", "arm64"]), *existing(draw, apps)[1:]]


FAMILIES: dict[str, Callable[[Random, list[Object]], list[Object]]] = {
    "plain": plain,
    "selectors": selectors,
    "affinity": affinity,
    "spread": spread,
    "taints": taints,
    "preferences": preferences,
    "devices": devices,
    "limits": limits,
    "existing": existing,
    "mixed": mixed,
}
"""Each changes the Deployments, and returns the other objects."""


def _pool(
    draw: Random,
    name: str = "default",
    *,
    capacity: list[str] | None = None,
    architectures: list[str] | None = None,
    taints: list[Object] | None = None,
    labels: dict[str, str] | None = None,
    limits: dict[str, str] | None = None,
    weight: int = 0,
) -> Object:
    choice = capacity or draw.choice((["on-demand"], ["on-demand"], ["spot", "on-demand"]))
    needs = [_in(CAPACITY_TYPE, choice), _in(ARCH, architectures or ["amd64"])]
    node_class = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    template: Object = {"spec": {"requirements": needs, "nodeClassRef": node_class}}
    if labels:
        template["metadata"] = {"labels": labels}
    if taints:
        template["spec"]["taints"] = taints
    spec: Object = {"template": template}
    if weight:
        spec["weight"] = weight
    if limits:
        spec["limits"] = limits
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec}


def _spec(app: Object) -> Object:
    manifest: Object = app["spec"]["template"]["spec"]
    return manifest


def _labels(app: Object) -> dict[str, str]:
    match_labels: dict[str, str] = app["spec"]["selector"]["matchLabels"]
    return match_labels


def _cores(app: Object) -> int:
    return int(_spec(app)["containers"][0]["resources"]["requests"]["cpu"].removesuffix("m"))


def _in(key: str, values: list[str]) -> Object:
    return {"key": key, "operator": "In", "values": values}


def _term(key: str, entries: dict[str, str]) -> Object:
    return {"topologyKey": key, "labelSelector": {"matchLabels": entries}}


def _spread(key: str, entries: dict[str, str], skew: int) -> Object:
    selector = {"matchLabels": entries}
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
