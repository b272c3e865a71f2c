"""Which pod-deletion-cost pods get while the gate PodDeletionCostManagement is on (N15-213 to N15-221)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.disruption.pod_deletion_costs import (
    LEAVING_COST,
    MAX_NODES,
    NodeWrites,
    node_costs,
    of_one_cycle,
    pending_writes,
    pins,
)
from tenon.kube.records import PodRecord
from tests.tenon.disruption.clusters import Cluster, NodeSpec, PodSpec, PoolSpec, situation
from tests.tenon.disruption.random_clusters import clusters
from tests.worker.cache.objects import owned_by, running

ONE_POD = [PodSpec()]


def replica(name: str, cost: str | None = None, **meta: Any) -> PodRecord:
    """A pod of a ReplicaSet."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u", "controller": True}
    annotations = {} if cost is None else {labels.POD_DELETION_COST: cost}
    return running(name, "n", meta={"ownerReferences": [owner], "annotations": annotations, **meta})


def costs(pods: dict[str, list[PodRecord]] | None = None, **cluster: Any) -> dict[str, int]:
    return node_costs(situation(Cluster(**cluster)), pods or {})


def test_n15_218_the_dearest_node_for_its_pods_is_emptied_first() -> None:
    nodes = {
        "cheap": NodeSpec(price=0.1, pods=ONE_POD),
        "dear": NodeSpec(price=0.9, pods=ONE_POD),
        "full": NodeSpec(price=0.9, pods=[PodSpec(count=3)]),
        "like-cheap": NodeSpec(price=0.1, pods=ONE_POD),
    }
    assert costs(nodes=nodes) == {"dear": -4, "full": -3, "cheap": -2, "like-cheap": -1}


def test_n15_217_drifted_nodes_come_before_others_and_leaving_ones_before_all() -> None:
    nodes = {
        "ordinary": NodeSpec(price=0.9, pods=ONE_POD),
        "drifted": NodeSpec(price=0.1, pods=ONE_POD, drifted="NodePoolDrifted"),
        "leaving": NodeSpec(price=0.1, leaving=True),
        "under-command": NodeSpec(price=0.1, disrupted_by="c"),
    }
    assert costs(nodes=nodes, pools={"default": PoolSpec(budgets=[{"nodes": "4"}])}) == {
        "leaving": LEAVING_COST,
        "under-command": LEAVING_COST,
        "drifted": -2,
        "ordinary": -1,
    }


@pytest.mark.parametrize(
    "node_edits",
    [
        {"protected": True},
        {"held_by": "pod default/db has do-not-disrupt"},
        {"price": 0.0},
        {"pool": "never"},
        {"pool": "static"},
        {"pool": "static", "drifted": "NodePoolDrifted"},
        {"initialized": False},
        {"pool": "closed"},
    ],
    ids=str,
)
def test_n15_219_a_node_that_cannot_leave_keeps_its_pods(node_edits: dict[str, Any]) -> None:
    pools = {
        "default": PoolSpec(),
        "never": PoolSpec(consolidate_after=None),
        "static": PoolSpec(replicas=1),
        "closed": PoolSpec(budgets=[{"nodes": "0"}]),
    }
    nodes = {"kept": NodeSpec(pods=ONE_POD, **node_edits), "free": NodeSpec(pods=ONE_POD)}
    assert costs(nodes=nodes, pools=pools) == {"free": -1}


@pytest.mark.parametrize("free", [{"pool": "when-empty"}, {"quiet": "1s"}, {"quiet": None}], ids=str)
def test_n15_217_what_is_about_the_moment_does_not_count(free: dict[str, Any]) -> None:
    pools = {"default": PoolSpec(consolidate_after="1h"), "when-empty": PoolSpec(policy="WhenEmpty")}
    assert costs(nodes={"free": NodeSpec(pods=ONE_POD, **free)}, pools=pools) == {"free": -1}


def test_n15_217_each_reason_has_its_budget() -> None:
    budgets = [{"nodes": "1", "reasons": ["Drifted"]}, {"nodes": "2", "reasons": ["Underutilized"]}]
    nodes = {
        **{f"d{number}": NodeSpec(price=0.2, pods=ONE_POD, drifted="NodePoolDrifted") for number in range(3)},
        **{f"n{number}": NodeSpec(price=0.2, pods=ONE_POD) for number in range(3)},
    }
    assert costs(nodes=nodes, pools={"default": PoolSpec(budgets=budgets)}) == {"d0": -3, "n0": -2, "n1": -1}


@pytest.mark.parametrize(
    ("pod", "pinned"),
    [
        (replica("web"), False),
        (running("job", "n", meta=owned_by("Job")), False),
        (running("agent", "n", meta=owned_by("DaemonSet")), False),
        (running("db", "n", meta=owned_by("StatefulSet")), True),
        (running("bare", "n"), True),
        (running("dns", "n", meta={"namespace": "kube-system"}), False),
        (running("done", "n", status={"phase": "Succeeded"}), False),
        (running("proxy", "n", meta=owned_by("Node")), False),
    ],
    ids=lambda value: value.pod.name if isinstance(value, PodRecord) else "",
)
def test_n15_220_a_pod_that_no_scale_in_removes_pins_its_node(pod: PodRecord, pinned: bool) -> None:
    assert pins(pod) is pinned
    node_ranks = costs({"n": [replica("web"), pod]}, nodes={"n": NodeSpec(pods=ONE_POD)})
    assert node_ranks == ({} if pinned else {"n": -1})


def test_n15_219_a_pod_of_no_ranked_node_loses_the_annotation_that_a_user_wrote() -> None:
    pods = {
        "kept": [replica("user", "100"), replica("plain")],
        "free": [replica("new"), replica("ranked", "-1"), running("job", "n", meta=owned_by("Job"))],
        "leaving": [replica("going", str(LEAVING_COST))],
    }
    nodes = {
        "kept": NodeSpec(pods=ONE_POD, protected=True),
        "free": NodeSpec(pods=ONE_POD),
        "leaving": NodeSpec(leaving=True),
    }
    writes = pending_writes(situation(Cluster(nodes=nodes)), pods)
    written = {write.pod.pod.name: write.cost for node in writes for write in node.writes}
    assert written == {"user": None, "new": -1}
    assert [(node.claim, node.unchanged) for node in writes] == [("free", 1), ("kept", 1)]


def test_n15_221_fifty_nodes_change_in_a_cycle_and_leaving_ones_besides() -> None:
    nodes = [NodeWrites(f"n{number}", "default", number % 3 == 0, ()) for number in range(120)]
    first, rest = of_one_cycle(nodes)
    assert sum(not node.leaving for node in first) == MAX_NODES
    assert sum(node.leaving for node in first) == 40
    assert [*first, *rest] != nodes
    assert {node.claim for node in [*first, *rest]} == {node.claim for node in nodes}
    assert not any(node.leaving for node in rest)


@given(clusters(), st.data())
def test_n15_218_a_second_cycle_has_nothing_to_write(cluster: Cluster, data: st.DataObject) -> None:
    """Costs are distinct and without gaps, and no write is repeated once it is done."""
    initial = situation(cluster)
    annotations = st.sampled_from([None, "5", "-1", "x", str(LEAVING_COST)])
    pods = {name: [replica(f"{name}-p", data.draw(annotations))] for name in cluster.nodes}
    ranks = sorted(cost for cost in node_costs(initial, pods).values() if cost != LEAVING_COST)
    assert ranks == list(range(-len(ranks), 0))
    writes = {write.pod.key: write.cost for node in pending_writes(initial, pods) for write in node.writes}
    after = {
        name: [
            replica(pod.pod.name, _text(writes[pod.key]) if pod.key in writes else pod.deletion_cost)
            for pod in pods[name]
        ]
        for name in pods
    }
    assert pending_writes(initial, after) == []


def _text(cost: int | None) -> str | None:
    return None if cost is None else str(cost)
