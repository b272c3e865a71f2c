"""Draws random workloads for plans: pods with any mixture of Kubernetes' scheduling rules."""

from __future__ import annotations

from random import Random
from typing import Any

from benchmarks.random_capacity import ARCH, CAPACITY_TYPE, CORES, FAMILY, GPU, HOST, TEAM, TEAMS, ZONE, ZONES

Object = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
VALUES = {
    ZONE: ZONES,
    ARCH: ("amd64", "arm64"),
    CAPACITY_TYPE: ("spot", "on-demand"),
    TEAM: TEAMS,
    FAMILY: ("c", "m", "r", "g"),
    CORES: ("2", "4", "8", "16"),
}


def workloads(draw: Random) -> list[Object]:
    """Draw one to eight workloads."""
    return [workload(draw, number) for number in range(draw.choice((1, 2, 3, 4, 5, 6, 8)))]


def workload(draw: Random, number: int) -> Object:
    """Draw a Deployment, StatefulSet or Job."""
    app = f"app-{min(number, 3) if draw.random() < 0.3 else number}"
    entries = {"app": app, "tier": draw.choice(("front", "back"))}
    spec = pod_spec(draw, entries)
    namespace = draw.choice(("default", "default", "default", "other"))
    if "volumes" in spec:
        spec["volumes"] = [_in_namespace(volume, namespace) for volume in spec["volumes"]]
    name, count = f"w{number}", draw.choice((1, 1, 2, 3, 4, 6, 10, 16))
    template = {"metadata": {"labels": entries}, "spec": spec}
    body: Object = {"replicas": count, "selector": {"matchLabels": {"app": app}}, "template": template}
    metadata = {"name": name, "namespace": namespace}
    kind = draw.choice(("Deployment", "Deployment", "Deployment", "StatefulSet", "Job"))
    if kind == "Job":
        body = {"parallelism": count, "template": template}
    return {"apiVersion": "batch/v1" if kind == "Job" else "apps/v1", "kind": kind, "metadata": metadata, "spec": body}


def pod_spec(draw: Random, entries: dict[str, str]) -> Object:
    """Draw a pod's spec. ``entries`` contains its labels."""
    requests = {"cpu": draw.choice(("100m", "250m", "500m", "1", "2", "3500m", "7")), "memory": _memory(draw)}
    devices = {GPU: draw.choice(("1", "2"))} if draw.random() < 0.05 else {}
    main: Object = {"name": "main", "resources": {"requests": requests | devices, "limits": devices}}
    spec: Object = {"containers": [main]}
    if draw.random() < 0.1:
        first = {"name": "first", "resources": {"requests": {"cpu": draw.choice(("500m", "4"))}}}
        spec["initContainers"] = [first if draw.random() < 0.5 else {**first, "restartPolicy": "Always"}]
    if draw.random() < 0.05:
        main["resources"] = {"limits": requests | devices}
    if draw.random() < 0.08:
        main["ports"] = [{"containerPort": 80, "hostPort": draw.choice((8080, 9090))}]
    if draw.random() < 0.2:
        spec["nodeSelector"] = dict([draw.choice([(key, value) for key in VALUES for value in VALUES[key]])])
    affinity: Object = {}
    if draw.random() < 0.2:
        affinity["nodeAffinity"] = _node_affinity(draw)
    if draw.random() < 0.18:
        affinity["podAffinity"] = {REQUIRED: [_term(draw, entries) for _ in range(draw.choice((1, 1, 1, 2)))]}
    if draw.random() < 0.18:
        affinity["podAntiAffinity"] = {REQUIRED: [_term(draw, entries) for _ in range(draw.choice((1, 1, 2)))]}
    if draw.random() < 0.08:
        preferred = {"weight": draw.randint(1, 100), "podAffinityTerm": _term(draw, entries)}
        affinity.setdefault(draw.choice(("podAffinity", "podAntiAffinity")), {})[PREFERRED] = [preferred]
    if affinity:
        spec["affinity"] = affinity
    if draw.random() < 0.3:
        spec["tolerations"] = [_toleration(draw)]
    if draw.random() < 0.4:
        spread = {}
        for _ in range(draw.choice((1, 1, 2, 3))):
            rule = _spread(draw, entries)
            spread[rule["topologyKey"], rule["whenUnsatisfiable"]] = rule
        spec["topologySpreadConstraints"] = list(spread.values())
    if draw.random() < 0.12:
        spec["volumes"] = [_volume(draw)]
    return spec


def _memory(draw: Random) -> str:
    return draw.choice(("128Mi", "256Mi", "1Gi", "2Gi", "6Gi", "14Gi"))


def _expression(draw: Random) -> Object:
    key = draw.choice(tuple(VALUES))
    operator = draw.choice(("In", "In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in ("Gt", "Lt"):
        return {"key": CORES, "operator": operator, "values": [draw.choice(("2", "4", "8"))]}
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key if operator == "Exists" else draw.choice((key, TEAM)), "operator": operator}
    return {"key": key, "operator": operator, "values": draw.sample(VALUES[key], draw.randint(1, 2))}


def _node_affinity(draw: Random) -> Object:
    terms = [
        {"matchExpressions": [_expression(draw) for _ in range(draw.choice((1, 1, 2)))]}
        for _ in range(draw.choice((1, 1, 2, 3)))
    ]
    manifest: Object = {REQUIRED: {"nodeSelectorTerms": terms}} if draw.random() < 0.75 else {}
    if not manifest or draw.random() < 0.2:
        manifest[PREFERRED] = [{"weight": draw.randint(1, 100), "preference": terms[0]}]
    return manifest


def _selector(draw: Random, entries: dict[str, str]) -> Object:
    if draw.random() < 0.7:
        return {"matchLabels": {"app": entries["app"]}}
    other = {"key": "app", "operator": "NotIn", "values": [entries["app"]]}
    return draw.choice(
        (
            {"matchLabels": {"tier": entries["tier"]}},
            {"matchLabels": {"tier": draw.choice(("front", "back"))}},
            {"matchLabels": {"app": f"app-{draw.randint(0, 4)}"}},
            {"matchExpressions": [other, {"key": "tier", "operator": "Exists"}]},
            {"matchExpressions": [{"key": "app", "operator": "In", "values": [entries["app"], "app-0"]}]},
            {},
        )
    )


def _term(draw: Random, entries: dict[str, str]) -> Object:
    term: Object = {"topologyKey": draw.choice((ZONE, HOST, HOST, CAPACITY_TYPE, TEAM)), "labelSelector": {}}
    term["labelSelector"] = _selector(draw, entries)
    choice = draw.random()
    if choice < 0.08:
        term["namespaces"] = ["default", "other"]
    elif choice < 0.16:
        term["namespaceSelector"] = draw.choice(({}, {"matchLabels": {"kind": "shared"}}))
    return term


def _spread(draw: Random, entries: dict[str, str]) -> Object:
    rule: Object = {
        "maxSkew": draw.choice((1, 1, 1, 2, 3)),
        "topologyKey": draw.choice((ZONE, ZONE, ZONE, HOST, HOST, CAPACITY_TYPE, ARCH, TEAM, TEAM)),
        "whenUnsatisfiable": draw.choice(("DoNotSchedule", "DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
        "labelSelector": _selector(draw, entries),
    }
    if rule["whenUnsatisfiable"] == "DoNotSchedule" and draw.random() < 0.15:
        rule["minDomains"] = draw.choice((2, 3, 4))
    if draw.random() < 0.1:
        rule["matchLabelKeys"] = ["tier"]
    if draw.random() < 0.12:
        rule["nodeAffinityPolicy"] = "Ignore"
    if draw.random() < 0.12:
        rule["nodeTaintsPolicy"] = "Honor"
    return rule


def _toleration(draw: Random) -> Object:
    return draw.choice(
        (
            {"key": "dedicated", "operator": "Exists"},
            {"key": "dedicated", "operator": "Equal", "value": "x"},
            {"key": "dedicated", "value": "y", "effect": "NoSchedule"},
            {"operator": "Exists"},
        )
    )


def _volume(draw: Random) -> Object:
    name = draw.choice(("bound-0", "bound-1", "bound-2", "bound-3", "late", "late-there", "ephemeral", "absent"))
    if name == "ephemeral":
        spec = {"storageClassName": draw.choice(("late", "late-there"))}
        return {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}
    return {"name": "data", "persistentVolumeClaim": {"claimName": name}}


def _in_namespace(volume: Object, namespace: str) -> Object:
    claim = volume.get("persistentVolumeClaim")
    if claim is None:
        return volume
    return {**volume, "persistentVolumeClaim": {"claimName": f"{claim['claimName']}-{namespace}"}}
