"""Which waiting pods get a node, and what room those keep that kube-scheduler is about to place itself (SCH-001)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.simulate.running import POOL, node, simulate

AWAY_FROM_WEB = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
        ]
    }
}


def waiting(
    name: str,
    cpu: str = "1",
    *,
    on: str = "",
    labels: dict[str, str] | None = None,
    metadata: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    ports: list[dict[str, Any]] | None = None,
    **spec: Any,
) -> str:
    """A pod without a node; ``on`` is the node that kube-scheduler has nominated."""
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}, **(metadata or {})},
        "spec": {"containers": [{**container, "ports": ports or []}], **spec},
        "status": {"phase": "Pending", **(status or {}), **({"nominatedNodeName": on} if on else {})},
    }
    return "\n---\n" + json.dumps(body)


def existing(name: str = "n1", cpu: str = "4") -> str:
    return node(name, cpu, labels={"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "us-west-2a"})


def on_existing(tmp_path: Path, text: str) -> dict[str, list[str]]:
    plan = simulate(tmp_path, POOL + text).plan
    return {entry["name"]: [pod.partition("/")[2] for pod in entry["pods"]] for entry in plan["existingNodes"]}


@pytest.mark.parametrize(
    ("text", "placed"),
    [
        (existing() + waiting("preempts", "3", on="n1") + waiting("large", "2") + waiting("small", "1"), ["small"]),
        (existing() + waiting("a", "1500m", on="n1") + waiting("b", "1500m", on="n1") + waiting("late", "2"), []),
        (existing() + waiting("preempts", "3", on="gone") + waiting("large", "2"), ["large"]),
        (existing() + existing("n2") + waiting("preempts", "3", on="n2") + waiting("large", "2"), ["large"]),
        (
            existing("n1", "8")
            + waiting("preempts", on="n1", ports=[{"containerPort": 80, "hostPort": 80}])
            + waiting("same-port", ports=[{"containerPort": 81, "hostPort": 80}])
            + waiting("other-port", ports=[{"containerPort": 81, "hostPort": 81}]),
            ["other-port"],
        ),
        (
            existing("n1", "8")
            + waiting("preempts", on="n1", labels={"app": "web"})
            + waiting("away", affinity=AWAY_FROM_WEB)
            + waiting("indifferent"),
            ["indifferent"],
        ),
    ],
    ids=["its CPU", "two of them", "a node that is gone", "another node", "its host port", "its labels"],
)
def test_sch001_a_nominated_pod_keeps_its_room_on_its_node(tmp_path: Path, text: str, placed: list[str]) -> None:
    """kube-scheduler counts a nominated pod on its node when it looks for room for others."""
    assert on_existing(tmp_path, text) == ({"n1": placed} if placed else {})


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}, "it has scheduling gates"),
        ({"schedulingGates": [{"name": "a.io/first"}, {"name": "b.io/second"}]}, "it has scheduling gates"),
        ({"on": "n1"}, "status.nominatedNodeName"),
        ({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}}, "a mirror pod"),
        ({"metadata": {"deletionTimestamp": "2026-03-01T08:00:00Z"}}, "it is being deleted"),
    ],
    ids=["a gate", "two gates", "nominated", "a mirror pod", "being deleted"],
)
def test_sch001_pods_that_wait_for_something_else_get_no_node_and_a_reason(
    tmp_path: Path, options: dict[str, Any], reason: str
) -> None:
    plan = simulate(tmp_path, POOL + waiting("p", **options) + waiting("other")).plan
    assert [claim["pods"] for claim in plan["nodeClaims"]] == [["default/other"]]
    ((pod, why),) = [(entry["pod"], entry["reason"]) for entry in plan["unschedulable"]]
    assert (pod, reason in why) == ("default/p", True), why


@pytest.mark.parametrize(
    "options",
    [
        {"schedulerName": "volcano"},
        {"schedulerName": "default-scheduler", "priorityClassName": "system-cluster-critical"},
        {"schedulingGates": []},
    ],
    ids=["another scheduler", "important", "no gate is left"],
)
def test_sch001_pods_that_wait_for_capacity_get_a_node_whoever_places_them(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    plan = simulate(tmp_path, POOL + waiting("p", **options)).plan
    assert [claim["pods"] for claim in plan["nodeClaims"]] == [["default/p"]]
