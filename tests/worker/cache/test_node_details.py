"""What disruption knows of each node: its price, its pods, and what they cost to move."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tenon.scheduling.model import InstanceType, Offering
from tests.tenon.scheduling.builders import CATALOG
from tests.worker.cache.objects import claim, node, owned_by, running
from worker.cache.node_details import node_details
from worker.cache.state import ClusterState

NOW = 1_800_000_000.0
TYPES: dict[str, list[InstanceType]] = {"pool": list(CATALOG)}
KIND = CATALOG[0]
SOLD = {
    "node.kubernetes.io/instance-type": KIND.name,
    "topology.kubernetes.io/zone": KIND.offerings[0].zone,
    "karpenter.sh/capacity-type": KIND.offerings[0].capacity_type,
}
OWNED = {"labels": {"karpenter.sh/nodepool": "pool", **SOLD}}
LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
SINCE = "2026-01-01T00:00:00Z"


def state(*, claims: list[Any], nodes: list[Any], pods: list[Any]) -> ClusterState:
    cluster_state = ClusterState(clock=lambda: NOW)
    for table, records in ((cluster_state.claims, claims), (cluster_state.nodes, nodes), (cluster_state.pods, pods)):
        for record in records:
            table.on_event(record.key, record)
    return cluster_state


@pytest.mark.parametrize(
    "item",
    [
        claim(meta=OWNED, initialized=SINCE),
        claim(meta=OWNED),
        claim(meta={**OWNED, **LEAVING}, initialized=SINCE),
    ],
    ids=["initialized", "not initialized", "leaving"],
)
def test_dis43_nodes_that_start_or_leave_have_their_price_and_their_pods(item: Any) -> None:
    pods = [running("web", "n", meta=owned_by("ReplicaSet")), running("log", "n", meta=owned_by("DaemonSet"))]
    result = node_details(state(claims=[item], nodes=[node(meta={"labels": SOLD})], pods=pods), NOW, TYPES)
    assert result["claim"].price == KIND.offerings[0].price
    assert [pod.name for pod in result["claim"].pods] == ["web"]
    assert result["claim"].cost == 2.0


def test_dis25_a_node_has_the_price_of_its_own_offering_and_none_if_that_is_not_known() -> None:
    offerings = (
        Offering("us-west-2a", "on-demand", 0.4),
        Offering("us-west-2b", "on-demand", 0.5),
        Offering("us-west-2a", "spot", 0.1),
    )
    offers = {
        "pool": [replace(KIND, offerings=offerings)],
        "other": [replace(KIND, offerings=(replace(offerings[0], price=9.0),))],
    }
    prices = {}
    for zone, capacity_type in (
        ("a", "on-demand"),
        ("b", "on-demand"),
        ("a", "spot"),
        ("b", "spot"),
        ("", "on-demand"),
    ):
        labelled = {
            **SOLD,
            "topology.kubernetes.io/zone": zone and f"us-west-2{zone}",
            "karpenter.sh/capacity-type": capacity_type,
        }
        labelled["karpenter.sh/nodepool"] = "pool"
        bought = claim(meta={"labels": labelled}, initialized=SINCE)
        cluster_state = state(claims=[bought], nodes=[node()], pods=[])
        prices[zone, capacity_type] = node_details(cluster_state, NOW, offers)["claim"].price
    assert prices == {
        ("a", "on-demand"): 0.4,
        ("b", "on-demand"): 0.5,
        ("a", "spot"): 0.1,
        ("b", "spot"): 0.0,
        ("", "on-demand"): 0.0,
    }


def test_dis25_a_node_has_the_price_of_what_was_bought_whatever_its_kubelet_says() -> None:
    """A kubelet labels its Node. Its NodeClaim has the labels of the instance that EC2 launched."""
    bought = claim(meta=OWNED, initialized=SINCE)
    lies = {**SOLD, "node.kubernetes.io/instance-type": CATALOG[1].name, "karpenter.sh/capacity-type": "spot"}
    detail = node_details(state(claims=[bought], nodes=[node(meta={"labels": lies})], pods=[]), NOW, TYPES)["claim"]
    assert (detail.instance_type, detail.capacity_type) == (KIND.name, KIND.offerings[0].capacity_type)
    assert detail.price == KIND.offerings[0].price


def test_a_pod_that_a_kubelet_dates_to_the_last_year_holds_its_node_alone() -> None:
    """An exception for the one node would end the pass for all of them."""
    meta = {"annotations": {"karpenter.sh/do-not-disrupt": "1h", "kubernetes.io/config.mirror": "x"}}
    forged = running("forged", "n", meta=meta, status={"startTime": "9999-12-31T23:59:59Z"})
    claims = [claim(meta=OWNED, initialized=SINCE), claim("other", node_name="m", meta=OWNED, initialized=SINCE)]
    nodes = [node(meta={"labels": SOLD}), node("m", meta={"labels": SOLD})]
    details = node_details(state(claims=claims, nodes=nodes, pods=[forged]), NOW, TYPES)
    assert details["claim"].held_by.startswith("pod ns/forged: ")
    assert details["other"].held_by == ""


def test_dis43_an_instance_without_a_node_has_its_price() -> None:
    result = node_details(state(claims=[claim(meta=OWNED)], nodes=[], pods=[]), NOW, TYPES)
    assert (result["claim"].node, result["claim"].price, result["claim"].pods) == ("", KIND.offerings[0].price, ())


def test_a_claim_without_an_instance_and_one_that_lost_its_node_have_no_details() -> None:
    for item in (claim(), claim(meta=OWNED, initialized=SINCE), claim(meta={"labels": SOLD})):
        assert node_details(state(claims=[item], nodes=[], pods=[]), NOW, TYPES) == {}
