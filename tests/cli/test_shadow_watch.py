"""``tenon shadow`` beside another Karpenter, whose objects reach it as watches bring them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.shadowing.reporting import Reporter
from tenon.shadow.report import Document, document
from tests.cli.watched import LARGE, Watched

PRICE = 0.768


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    """A cluster with two pods on one node that is far too large."""
    cluster = Watched(tmp_path)
    cluster.node("a")
    cluster.pod("web-1", "a")
    cluster.pod("web-2", "a")
    with cluster.observed.following():
        for record in cluster.observed.cache.pods:
            cluster.observed._pod_changed(record.key, None, record)
        yield cluster
    cluster.shadow.store.close()


def report(watched: Watched) -> Document:
    return document(Reporter(watched.shadow).report(watched.now))


def test_the_model_begins_as_the_cluster_and_then_consolidates(watched: Watched) -> None:
    watched.begin()
    rates = watched.shadow.rates()
    assert (rates.theirs, rates.ours) == (PRICE, PRICE)
    watched.pass_time(200)
    now = report(watched)
    assert now["now"]["karpenterPricePerHour"] == PRICE
    assert now["now"]["tenonPricePerHour"] < PRICE / 4
    assert now["cost"]["savedDollars"] > 0
    assert now["commands"][0]["removed"] == [LARGE]
    assert now["disturbance"]["tenon"]["podsMoved"] == 2
    assert not watched.shadow.model.faults()
    assert not watched.shadow.failures


def test_pods_that_karpenter_evicts_stay_where_they_are_in_the_model(watched: Watched) -> None:
    watched.begin()
    watched.pass_time(200)
    places = {uid: pod.node for uid, pod in watched.shadow.model.pods.items()}
    watched.node("b", "m5.large")
    watched.node("a", leaves="Underutilized")
    watched.pass_time(2)
    for number in (1, 2):
        watched.pod(f"web-{number}", "a", ends=True)
        watched.pod(f"web-{number + 2}", "b")
    watched.pass_time(2)
    for number in (1, 2):
        watched.no_pod(f"web-{number}")
    watched.no_node("a")
    watched.pass_time(4)
    model = watched.shadow.model
    assert set(model.pods) == {"uid-web-3", "uid-web-4"}
    assert {pod.node for pod in model.pods.values()} == set(places.values())
    disturbance = report(watched)["disturbance"]["karpenter"]
    assert disturbance == {"podsMoved": 2, "nodesRemoved": 1, "byReason": {"Underutilized": 1}}
    assert model.disturbance.pods_moved == 2


@pytest.mark.parametrize("node_is_gone", [False, True])
def test_pods_that_are_evicted_and_gone_between_two_looks_count_too(watched: Watched, node_is_gone: bool) -> None:
    """As pods without a grace period are."""
    watched.begin()
    watched.pass_time(200)
    places = {uid: pod.node for uid, pod in watched.shadow.model.pods.items()}
    watched.node("b", "m5.large")
    watched.pass_time(2)
    watched.node("a", leaves="Underutilized")
    for number in (1, 2):
        watched.no_pod(f"web-{number}")
    if node_is_gone:
        watched.no_node("a")
    watched.pass_time(2)
    for number in (1, 2):
        watched.pod(f"web-{number + 2}", "b")
    watched.pass_time(4)
    model = watched.shadow.model
    assert set(model.pods) == {"uid-web-3", "uid-web-4"}
    assert {pod.node for pod in model.pods.values()} == set(places.values())
    assert report(watched)["disturbance"]["karpenter"]["podsMoved"] == 2
    assert not model.faults()


def test_a_purchase_is_planned_again_and_compared(watched: Watched) -> None:
    watched.begin()
    for number in range(10, 14):
        watched.pod(f"web-{number}", cpu="3500m")
    watched.pass_time(2)
    watched.node("b", ready=False)
    watched.pass_time(20)
    watched.node("b")
    for number in range(10, 14):
        watched.pod(f"web-{number}", "b", cpu="3500m")
    watched.pass_time(4)
    purchases = report(watched)["purchases"]
    assert (purchases["compared"], purchases["pods"]) == (1, 4)
    (entry,) = purchases["differMost"]
    assert entry["karpenter"]["pricePerHour"] == PRICE
    assert entry["tenon"]["onExistingNodes"] + sum(node["count"] for node in entry["tenon"]["nodes"]) > 0
    assert entry["workloads"] == ["default/ReplicaSet/web-1 x4"]


def test_a_restart_goes_on_where_it_was(watched: Watched) -> None:
    watched.begin()
    watched.pass_time(200)
    before = report(watched)
    nodes = set(watched.shadow.model.nodes)
    watched.now += 30
    watched.restart()
    assert set(watched.shadow.model.nodes) == nodes
    watched.pass_time(2)
    after = report(watched)
    assert after["begun"] == before["begun"]
    assert after["cost"]["savedDollars"] > before["cost"]["savedDollars"]
    assert after["disturbance"] == before["disturbance"]
    assert not watched.shadow.model.faults()


def test_a_restart_counts_nothing_again(watched: Watched) -> None:
    """A node that leaves and a pod that ends were counted, and a spot node must not be interrupted twice."""
    watched.begin()
    watched.pass_time(200)
    watched.node("a", leaves="Underutilized")
    watched.pod("web-1", "a", ends=True)
    watched.pass_time(2)
    before = report(watched)["disturbance"]["karpenter"]
    assert before == {"podsMoved": 1, "nodesRemoved": 1, "byReason": {"Underutilized": 1}}
    watched.restart()
    watched.pass_time(2)
    watched.no_pod("web-1")
    watched.pass_time(2)
    assert report(watched)["disturbance"]["karpenter"] == before
    watched.now += 1800
    watched.no_node("a")
    watched.pass_time(2)
    assert watched.shadow.theirs.drain_seconds == pytest.approx(1808), "it began to leave before the restart"


def test_a_node_that_left_while_nothing_watched_counts(watched: Watched) -> None:
    watched.begin()
    watched.pass_time(200)
    watched.shadow.save()
    watched.now += 30
    watched.node("a", leaves="Underutilized")
    watched.now += 30
    watched.go_on()
    watched.pass_time(2)
    assert report(watched)["disturbance"]["karpenter"]["byReason"] == {"Underutilized": 1}


def test_a_state_of_another_cluster_is_not_used(watched: Watched) -> None:
    watched.begin()
    watched.pass_time(200)
    watched.shadow.totals.cluster_uid = "other"
    watched.restart()
    assert {node.claim for node in watched.shadow.model.nodes.values()} == {"a"}
    assert watched.shadow.totals.ledger.seconds == 0.0


def test_a_state_of_other_node_pools_or_settings_is_not_used(watched: Watched) -> None:
    watched.begin()
    watched.pass_time(200)
    watched.shadow.totals.inputs = "other"
    assert "-f, --set or --catalog" in watched.restart()
    assert {node.claim for node in watched.shadow.model.nodes.values()} == {"a"}
    assert watched.shadow.totals.ledger.seconds == 0.0
    watched.pass_time(200)
    assert watched.restart() == ""


def test_a_node_of_an_unknown_type_is_said_to_have_no_price(watched: Watched) -> None:
    watched.node("kwok", "c-4x-amd64-linux")
    watched.begin()
    watched.pass_time(2)
    notes = " ".join(report(watched)["notes"])
    assert "without a known price" in notes
    assert "c-4x-amd64-linux" in notes


def test_nodes_of_a_node_pool_that_the_files_lack_are_said_not_to_count(watched: Watched) -> None:
    watched.observed.cache.pools.on_event("default", None)
    watched.begin()
    watched.pass_time(2)
    (text,) = report(watched)["risks"]["leftOut"]
    assert text.startswith("NodePool default: the model does not have it, so its 1 node")
    assert watched.shadow.rates().theirs == 0.0
