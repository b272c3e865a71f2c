"""``--live``: the cluster of the kubeconfig, only ever read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.simulate.api_server import ApiServer
from tests.simulate.live_server import server
from tests.simulate.running import POOL, catalogue, command, deployment, node

pytestmark = pytest.mark.integration

__all__ = ["server"]

PENDING = {"metadata": {"name": "waits", "namespace": "team", "uid": "u1"}, "spec": {"containers": [{"name": "main"}]}}


def test_the_cluster_is_read_and_files_win(server: type[ApiServer], tmp_path: Path) -> None:
    live_node, live_pool = yaml.safe_load(node(cpu="100m").removeprefix("\n---")), yaml.safe_load(POOL)
    server.objects = {"nodes": [live_node], "pods": [PENDING], "nodepools": [live_pool]}
    larger = tmp_path / "larger.yaml"
    larger.write_text(node(cpu="8") + deployment("web", 2))
    options = ("--live", "-o", "json", "--catalog", str(catalogue(tmp_path)))
    assert command(*options).plan["totals"] | {"pricePerHour": 0} == {
        "pods": 1,
        "unschedulable": 0,
        "nodes": 0,
        "pricePerHour": 0,
        "lowerBoundPricePerHour": 0.0,
        "costPerHour": 0,
        "lowerBoundCostPerHour": 0.0,
        "sizingCostPerHour": 0,
        "lowerBoundSizingCostPerHour": 0.0,
        "nodeCharge": 0.02,
        "maxWorkloadSharePerNode": 1.0,
    }
    answer = command("-f", str(larger), *options)
    assert answer.plan["existingNodes"] == [{"name": "n1", "pods": ["default/web-0", "default/web-1", "team/waits"]}]
    assert set(server.methods) == {"GET"}


def test_selectors_are_read_where_pods_are_spread_by_default(server: type[ApiServer], tmp_path: Path) -> None:
    """SCH-062, SET-06: the cluster's workloads say whom the constraints count, and make no pods."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "rs", "controller": True}
    meta = {"namespace": "team", "labels": {"app": "web"}, "ownerReferences": [owner]}
    selected = {"spec": {"replicas": 9, "selector": {"matchLabels": {"app": "web"}}}}
    server.objects = {
        "nodepools": [yaml.safe_load(POOL)],
        "pods": [{**PENDING, "metadata": {**meta, "name": f"web-{n}", "uid": f"web-{n}"}} for n in range(2)],
        "replicasets": [{"metadata": {"name": "web-1", "namespace": "team"}, **selected}],
        "replicationcontrollers": [
            {
                "metadata": {"name": "old", "namespace": "team"},
                "spec": {"replicas": 9, "selector": {"app": "old"}, "template": {"spec": PENDING["spec"]}},
            }
        ],
        **{plural: [] for plural in ("statefulsets", "services")},
    }
    constraint = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
    document = json.dumps({"podTopologySpread": {"defaultConstraints": [constraint]}})
    options = ("--live", "-o", "json", "--catalog", str(catalogue(tmp_path)))
    assert command(*options).plan["totals"]["nodes"] == 1
    totals = command(*options, "--set", f"SCHEDULER_CONFIG={document}").plan["totals"]
    assert (totals["pods"], totals["nodes"], totals["unschedulable"]) == (2, 2, 0)


def test_gates_decide_whether_the_clusters_overlays_and_buffers_count(server: type[ApiServer], tmp_path: Path) -> None:
    """SCH-101, SCH-006, GAT-04, GAT-06: as a worker with these gates would plan; a followed workload makes no pods."""
    template = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}}
    web = {"metadata": {"name": "web", "namespace": "team"}, "spec": {"replicas": 4, "template": template}}
    follows = {"scalableRef": {"kind": "Deployment", "name": "web"}, "percentage": 50}
    server.objects = {
        "nodepools": [yaml.safe_load(POOL)],
        "capacitybuffers": [{"metadata": {"name": "spare", "namespace": "team"}, "spec": follows}],
        "nodeoverlays": [{"metadata": {"name": "free"}, "spec": {"requirements": [], "price": "0"}}],
    }
    server.single = {"web": web}
    options = ("--live", "-o", "json", "--catalog", str(catalogue(tmp_path)))
    assert command(*options).plan["totals"]["pods"] == 0
    gates = "FEATURE_GATES=CapacityBuffer=true"
    plan = command(*options, "--set", gates).plan
    assert [claim["pods"] for claim in plan["nodeClaims"]] == [
        ["team/capacity-buffer-spare-0", "team/capacity-buffer-spare-1"]
    ]
    assert plan["totals"]["pricePerHour"] > 0
    plan = command(*options, "--set", f"{gates},NodeOverlay=true").plan
    assert plan["totals"]["pricePerHour"] == 0
    refused = command(*options, "--set", "FEATURE_GATES=Overlays=true")
    assert (refused.status, "unknown feature gate 'Overlays'" in refused.err) == (2, True)


def test_no_cluster_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    answer = command("--live", "-o", "json")
    assert (answer.status, answer.out) == (2, "")
    assert answer.err.startswith("the cluster: cannot be read: ")
