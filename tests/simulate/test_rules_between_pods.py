"""Affinity and spread of pods that cannot all go everywhere: what users met, judged by the rules alone (SCH-051..066).

Each case is a plan for manifests that a user would write. The judge of `tests/oracle`, which does not know the engine,
finds no broken rule in it, and no pod that was left out although it has a place.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.oracle.completeness import left_out
from tests.oracle.inputs import read_inputs
from tests.oracle.judging import judge_inputs
from tests.simulate.running import POOL, simulate
from tests.tenon.scheduling.builders import ZONES, entry, ordinary_entries

A, B, C = ZONES
ZONE, HOST, CAPACITY_TYPE = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "karpenter.sh/capacity-type"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
GPU = "nvidia.com/gpu"
GPUS = [
    entry("g5.4xlarge", 16, 64, 2.0, zones=[A, B], capacity={GPU: "1"}),
    entry("p4.24xlarge", 96, 384, 20.0, zones=[B], capacity={GPU: "8"}),
]
"""GPUs are sold in two of three zones, eight on one node in one of them."""
WITHOUT_SPOT = entry("x1.4xlarge", 16, 256, 3.0)
WITHOUT_SPOT["offerings"] = [offer for offer in WITHOUT_SPOT["offerings"] if offer["capacityType"] == "on-demand"]
TYPES = {"instanceTypes": [*ordinary_entries(), *GPUS, WITHOUT_SPOT]}
ANY_POOL = POOL.replace(", operator: In, values: [on-demand]", ", operator: Exists")


def near(key: str = ZONE, **term: Any) -> dict[str, Any]:
    """Required affinity to pods with these labels, or with other fields of the term."""
    return {"podAffinity": {REQUIRED: [_term(key, **term)]}}


def away(key: str = HOST, **term: Any) -> dict[str, Any]:
    return {"podAntiAffinity": {REQUIRED: [_term(key, **term)]}}


def _term(key: str, labels: dict[str, str], **fields: Any) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}, **fields}


def spread(labels: dict[str, str], key: str = ZONE, **fields: Any) -> list[dict[str, Any]]:
    hard = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return [{**hard, "labelSelector": {"matchLabels": labels}, **fields}]


def workload(
    name: str,
    replicas: int = 1,
    cpu: str = "1",
    *,
    kind: str = "Deployment",
    labels: dict[str, str] | None = None,
    gpus: int = 0,
    namespace: str = "default",
    **spec: Any,
) -> dict[str, Any]:
    labels = labels or {"app": name}
    resources: dict[str, Any] = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    if gpus:
        resources["limits"] = {GPU: str(gpus)}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "app", "resources": resources}], **spec},
    }
    counted = {} if kind == "DaemonSet" else {"replicas": replicas}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {**counted, "selector": {"matchLabels": labels}, "template": template},
    }


def node(name: str, zone: str, cpu: str = "4") -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": "16Gi", "pods": "58"}
    texts = {HOST: name, ZONE: zone, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": texts},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def running(name: str, on: str, labels: dict[str, str]) -> dict[str, Any]:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"nodeName": on, "containers": [container]},
        "status": {"phase": "Running"},
    }


def bound_in(zone: str, name: str) -> list[dict[str, Any]]:
    """A claim with its volume in a zone."""
    present_items = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"volume-{name}"},
            "spec": {
                "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": name},
                "nodeAffinity": {"required": {"nodeSelectorTerms": present_items}},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"volumeName": f"volume-{name}"},
        },
    ]


def mounts(claim: str) -> list[dict[str, Any]]:
    return [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]


@dataclass(frozen=True)
class Case:
    """Manifests besides the NodePool, and what the plan must do with them."""

    objects: list[dict[str, Any]]
    zones: dict[str, int] = field(default_factory=dict)
    """How many pods go where, if that is settled."""
    unschedulable: dict[str, str] = field(default_factory=dict)
    """The workloads whose pods have no place, with a part of the reason."""
    nodes: int | None = None
    """How many nodes are bought."""


JOB, OTHER = {"job": "t"}, {"job": "u"}
EVERYWHERE = [{"operator": "Exists"}]
CASES: dict[str, Case] = {
    # next to the pods of DaemonSets
    "near a DaemonSet of another namespace": Case(
        [
            workload("cache", kind="DaemonSet", cpu="100m", namespace="kube-system"),
            workload("web", 2, affinity=near(HOST, labels={"app": "cache"}, namespaces=["kube-system"])),
        ],
        nodes=1,
    ),
    "near a DaemonSet whose namespace the term leaves out": Case(
        [
            workload("cache", kind="DaemonSet", cpu="100m", namespace="kube-system"),
            workload("web", 2, affinity=near(HOST, labels={"app": "cache"})),
        ],
        unschedulable={"web": "pod affinity"},
        nodes=0,
    ),
    "away from a DaemonSet of any namespace": Case(
        [
            workload("agent", kind="DaemonSet", cpu="100m", namespace="kube-system", tolerations=EVERYWHERE),
            workload("web", 2, affinity=away(labels={"app": "agent"}, namespaceSelector={})),
        ],
        unschedulable={"web": "because DaemonSet kube-system/agent runs there"},
        nodes=0,
    ),
    "a chart whose Deployment and DaemonSet have one name": Case(
        [
            workload("node", kind="DaemonSet", cpu="100m", labels={"name": "chart"}),
            workload("server", 2, labels={"name": "chart"}, affinity=away(labels={"name": "chart"})),
        ],
        unschedulable={"server": "because DaemonSet default/node runs there"},
        nodes=0,
    ),
    "the same chart, with a DaemonSet for arm64 nodes only": Case(
        [
            workload(
                "node",
                kind="DaemonSet",
                cpu="100m",
                labels={"name": "chart"},
                nodeSelector={"kubernetes.io/arch": "arm64"},
            ),
            workload("server", 2, labels={"name": "chart"}, affinity=away(labels={"name": "chart"})),
        ],
        nodes=2,
    ),
    # spread over domains that some pods cannot reach
    "GPU pods over three zones, of which two sell GPUs": Case(
        [workload("infer", 4, gpus=1, topologySpreadConstraints=spread({"app": "infer"}))], {A: 2, B: 2}
    ),
    "one zone sells the nodes of a StatefulSet": Case(
        [workload("train", 3, gpus=8, kind="StatefulSet", topologySpreadConstraints=spread({"app": "train"}))], {B: 3}
    ),
    "capacity types, of which one is not sold": Case(
        [
            workload(
                "train",
                3,
                nodeSelector={"karpenter.k8s.aws/instance-family": "x1"},
                topologySpreadConstraints=spread({"app": "train"}, CAPACITY_TYPE),
            )
        ],
    ),
    "a zone that pods cannot reach counts once it has a node": Case(
        [
            node("n", C, "1"),
            workload("infer", 3, gpus=1, topologySpreadConstraints=spread({"app": "infer"})),
        ],
        {A: 1, B: 1},
        unschedulable={"infer": "topology spread over topology.kubernetes.io/zone"},
    ),
    "the same, but the nodes' taints count and the pods do not tolerate it": Case(
        [
            {**node("n", C, "1"), "spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}},
            workload("infer", 4, gpus=1, topologySpreadConstraints=spread({"app": "infer"}, nodeTaintsPolicy="Honor")),
        ],
        {A: 2, B: 2},
    ),
    # groups that start where all of them can go
    "a pair, of which one needs the zone of eight GPUs": Case(
        [
            workload("a", labels=JOB, affinity=near(labels=JOB), cpu="5"),
            workload("b", labels=JOB, affinity=near(labels=JOB), gpus=8),
        ],
        {B: 2},
    ),
    "the same pair with the names exchanged, and a third pod on a volume": Case(
        [
            *bound_in(B, "data"),
            workload("z", labels=JOB, affinity=near(labels=JOB), cpu="5"),
            workload("m", labels=JOB, affinity=near(labels=JOB), volumes=mounts("data")),
            workload("a", labels=JOB, affinity=near(labels=JOB), gpus=8),
        ],
        {B: 3},
    ),
    "two groups with volumes in different zones, names interleaved": Case(
        [
            *bound_in(A, "first"),
            *bound_in(C, "second"),
            workload("a", 2, labels=JOB, affinity=near(labels=JOB)),
            workload("b", labels=OTHER, affinity=near(labels=OTHER), volumes=mounts("second")),
            workload("c", labels=JOB, affinity=near(labels=JOB), volumes=mounts("first")),
            workload("d", 2, labels=OTHER, affinity=near(labels=OTHER)),
        ],
        {A: 3, C: 3},
    ),
    "two groups that keep away from each other, one with a GPU": Case(
        [
            workload("a", 2, labels=JOB, affinity={**near(labels=JOB), **away(ZONE, labels=OTHER)}),
            workload("b", labels=JOB, affinity=near(labels=JOB), gpus=8),
            workload("c", 2, labels=OTHER, affinity=near(labels=OTHER)),
        ],
    ),
    "one node for all, of which one needs a GPU": Case(
        [
            workload("a", 2, labels=JOB, affinity=near(HOST, labels=JOB)),
            workload("b", labels=JOB, affinity=near(HOST, labels=JOB), gpus=1),
        ],
        nodes=1,
    ),
    "a member runs where the GPU is not sold": Case(
        [
            node("n", C),
            running("r", "n", JOB),
            workload("free", labels=JOB, affinity=near(labels=JOB)),
            workload("gpu", labels=JOB, affinity=near(labels=JOB), gpus=1),
        ],
        {C: 1},
        unschedulable={"gpu": "pod affinity"},
        nodes=0,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_sch051_sch063_rules_between_pods_hold_and_no_pod_with_a_place_is_left_out(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    file = tmp_path / "types.json"
    file.write_text(json.dumps(TYPES))
    documents = [*yaml.safe_load_all(ANY_POOL), *case.objects]
    plan = simulate(tmp_path, "\n---\n".join(map(json.dumps, documents)), "--catalog", str(file)).plan
    inputs = read_inputs(documents, TYPES)
    assert judge_inputs(inputs, plan) == []
    assert list(left_out(inputs, plan)) == []
    refused = {entry["pod"].partition("/")[2].rpartition("-")[0]: entry["reason"] for entry in plan["unschedulable"]}
    assert refused.keys() == case.unschedulable.keys(), refused
    for workload_name, reason in case.unschedulable.items():
        assert reason in refused[workload_name]
    if case.zones:
        zones = {
            entry["metadata"]["name"]: entry["metadata"]["labels"][ZONE]
            for entry in documents
            if entry["kind"] == "Node"
        }
        placed = Counter({zones[entry["name"]]: len(entry["pods"]) for entry in plan["existingNodes"]})
        placed.update(dict.fromkeys(zones.values(), 0))
        for claim in plan["nodeClaims"]:
            placed[claim["offering"]["zone"]] += len(claim["pods"])
        assert +placed == case.zones
    if case.nodes is not None:
        assert len(plan["nodeClaims"]) == case.nodes
