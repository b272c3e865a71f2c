"""Plans that are wrong in one way each: the judge says in which."""

from __future__ import annotations

import copy

import pytest

from tests.oracle.judging import judge
from tests.oracle.objects import (
    CAPACITY_TYPE,
    CATALOGUE,
    HOST,
    ZONE,
    Object,
    affinity,
    claim,
    daemon,
    labeled_daemon,
    node,
    plan,
    pod,
    pool,
    spread,
    within,
)
from tests.oracle.parts import BOTH, CLAIMED, NEAR, OPEN, PORT, TAINT, VOLUME, app


def rules(manifests: list[Object], manifest: Object, catalogue: Object = CATALOGUE) -> set[str]:
    return {result.rule for result in judge(manifests, catalogue, manifest)}


ONE = [pool(), pod()]


@pytest.mark.parametrize(
    ("rule", "manifest"),
    [
        ("pods", plan()),
        ("pods", plan(claim("p"), unplaced=("p",))),
        ("pods", plan(claim("p"), claim("q"))),
        ("pods", plan(unplaced=("p",)) | {"unschedulable": [{"pod": "default/p", "reason": " "}]}),
        ("nodes", plan(on={"nowhere": ["p"]})),
        ("totals", plan(claim("p"), nodes=2)),
        ("totals", plan(claim("p"), pods=2)),
        ("totals", plan(claim("p"), pricePerHour=0.2)),
        ("totals", plan(claim("p"), lowerBoundPricePerHour=0.2)),
        ("totals", plan(claim("p"), nodeCharge=0.05, lowerBoundCostPerHour=0.2)),
        ("totals", plan(claim("p"), sizingCostPerHour=0.2, lowerBoundSizingCostPerHour=0.21)),
        ("totals", plan(claim("p"), claim(name="claim-p"))),
        ("claim-empty", plan(claim("p"), claim())),
        ("claim-pool", plan(claim("p", nodePool="other"))),
        ("claim-pool", plan(claim("p", requirements=[within("team", "red")]))),
        ("claim-types", plan(claim("p", instanceTypes=["small", "huge"]))),
        ("claim-types", plan(claim("p", instanceTypes=["small", "small"]))),
        ("claim-types", plan(claim("p", zone="d"))),
        ("claim-types", plan(claim("p", requirements=[within("size", "small")]))),
        ("claim-price", plan(claim("p", instanceTypes=["large", "small"]))),
        ("claim-price", plan(claim("p", price=0.09))),
        ("claim-price", plan(claim("p", offering={"instanceType": "small", "zone": "b", "capacityType": "on-demand"}))),
        ("claim-requests", plan(claim("p", cpu="2"))),
        ("claim-requests", plan(claim("p", daemons=1))),
    ],
)
def test_what_a_plan_says_of_itself(rule: str, manifest: Object) -> None:
    assert rule in rules(ONE, manifest)


def test_the_plan_that_those_are_made_of_is_right() -> None:
    assert not rules(ONE, plan(claim("p")))


NO_VOLUMES: Object = {
    "kind": "CSINode",
    "metadata": {"name": "n"},
    "spec": {"drivers": [{"name": "d", "allocatable": {"count": 0}}]},
}
POOLED: Object = {"karpenter.sh/nodepool": "default"}
LEAVING: Object = node() | {"metadata": {**node()["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


@pytest.mark.parametrize(
    ("rule", "manifests", "manifest"),
    [
        ("resources", [pool(), pod(cpu="3")], plan(claim("p", cpu="3"))),
        ("resources", [pool(), pod(), daemon("950m")], plan(claim("p", cpu="1950m", daemons=1))),
        ("resources", [pool(), node(cpu="1"), pod(), daemon()], plan(on={"n": ["p"]})),
        ("resources", [pool(), node(cpu="2"), pod(), pod("q", "1500m", node="n")], plan(on={"n": ["p"]})),
        ("nodes", [pool(), LEAVING, pod()], plan(on={"n": ["p"]})),
        ("taints", [pool(taints=[TAINT]), pod()], plan(claim("p"))),
        ("taints", [pool(), node(spec={"unschedulable": True}), pod()], plan(on={"n": ["p"]})),
        (
            "taints",
            [pool(taints=[TAINT]), pod(tolerations=[{"key": "t", "operator": "Equal", "value": "y"}])],
            plan(claim("p")),
        ),
        ("node-affinity", [pool(), pod(nodeSelector={ZONE: "b"})], plan(claim("p"))),
        ("node-affinity", [pool(), pod(nodeSelector={ZONE: "a"})], plan(claim("p", **OPEN))),
        ("node-affinity", [pool(), pod(nodeSelector={"size": "small"})], plan(claim("p"))),
        (
            "node-affinity",
            [pool("default", within("team", "red", "blue")), pod(nodeSelector={"team": "red"})],
            plan(claim("p")),
        ),
        ("claim-pool", [pool("default", within(ZONE, "a")), pod()], plan(claim("p", **OPEN))),
        ("claim-pool", [pool(spec={"replicas": 3}), pod()], plan(claim("p"))),
        (
            "min-values",
            [pool("default", {"key": "size", "operator": "Exists", "minValues": 2}), pod()],
            plan(claim("p", instanceTypes=["small"])),
        ),
        ("limits", [pool(spec={"limits": {"cpu": "4"}}), pod()], plan(claim("p"))),
        ("limits", [pool(spec={"limits": {"nodes": "1"}}), pod(), pod("q")], plan(claim("p"), claim("q"))),
        (
            "limits",
            [pool(spec={"limits": {"cpu": "10"}}), node(**POOLED), pod()],
            plan(claim("p")),
        ),
        ("volumes", [pool(), *VOLUME, pod(**CLAIMED)], plan(claim("p", zone="b"))),
        ("volumes", [pool(), *VOLUME, pod(**CLAIMED)], plan(claim("p", **OPEN))),
        ("volumes", [pool(), VOLUME[0], pod(**CLAIMED)], plan(claim("p"))),
        ("volumes", [pool(), pod(**CLAIMED)], plan(claim("p"))),
        ("volumes", [pool(), node(), NO_VOLUMES, *VOLUME, pod(**CLAIMED)], plan(on={"n": ["p"]})),
        ("host-ports", [pool(), pod(cpu="500m", **PORT), pod("q", "500m", **PORT)], plan(claim("p", "q", cpu="1"))),
        ("host-ports", [pool(), node(), pod(**PORT), pod("q", node="n", **PORT)], plan(on={"n": ["p"]})),
        ("host-ports", [pool(), pod(**PORT), daemon(**PORT)], plan(claim("p", cpu="1500m", daemons=1))),
        ("pods", [pool(), pod(schedulingGates=[{"name": "wait"}])], plan(claim("p"))),
    ],
)
def test_what_a_node_must_hold_by_itself(rule: str, manifests: list[Object], manifest: Object) -> None:
    assert rule in rules(manifests, manifest)


TWO = [pool(), pod("p", **spread()), pod("q", **spread())]
AWAY: Object = affinity("podAntiAffinity", (ZONE, "web"))
SPREADS = spread()["topologySpreadConstraints"] + spread("team", maxSkew=9)["topologySpreadConstraints"]


@pytest.mark.parametrize(
    ("rule", "manifests", "manifest"),
    [
        ("spread", [*TWO, pod("r", **spread())], plan(claim("p"), claim("q"), claim("r", zone="b"))),
        ("spread", TWO, plan(claim("p"), claim("q", **OPEN))),
        ("spread", [pool(), pod(**spread("team"))], plan(claim("p"))),
        ("spread", [pool(), pod(**spread(HOST)), pod("q", **spread(HOST))], plan(claim("p", "q", cpu="2"))),
        (
            "spread",
            [pool(), node(), node("m", zone="b"), pod("r", node="n"), pod(**spread())],
            plan(on={"n": ["p"]}),
        ),
        (
            "spread",
            [pool("default", within(ZONE, "a", "b")), *(pod(n, **spread(minDomains=3)) for n in "pqr")],
            plan(claim("p"), claim("q", zone="b"), claim("r")),
        ),
        (
            "spread",  # zone c sells a large node, if not one that is large enough
            [pool(), *(pod(n, "5", nodeSelector={"size": "large"}, **spread()) for n in "pqrs")],
            plan(*(claim(n, cpu="5", zone=z, instanceTypes=["large"]) for n, z in zip("pqrs", "aabb", strict=True))),
        ),
        (
            "spread",  # the node lacks a team, so its pods in zone a do not make zone b the emptier one
            [
                pool("default", within(ZONE, "a", "b"), within("team", "red")),
                node(cpu="9"),
                *(pod(f"old-{n}", node="n") for n in range(2)),
                *(pod(n, "500m", topologySpreadConstraints=SPREADS) for n in "pq"),
            ],
            plan(claim("p", "q", cpu="1", zone="b", requirements=[within("team", "red")])),
        ),
        ("pod-affinity", [pool(), app("p", "db", **NEAR)], plan(claim("p"))),
        ("pod-affinity", [pool(), pod(**NEAR), pod("q", **NEAR)], plan(claim("p"), claim("q", zone="b"))),
        ("pod-affinity", [pool(), pod("q"), app("p", "db", **NEAR)], plan(claim("p"), claim("q", **OPEN))),
        ("pod-affinity", [pool(), node(), pod("r", node="n"), pod(**NEAR)], plan(claim("p", zone="b"))),
        (
            "pod-affinity",
            [pool(), app("q", "db"), app("r", "cache"), pod(**BOTH)],
            plan(claim("p"), claim("q"), claim("r")),
        ),
        (
            "pod-affinity",  # each waits for the other
            [pool(), app("p", "db", **NEAR), pod("q", **affinity("podAffinity", (ZONE, "db")))],
            plan(claim("p"), claim("q")),
        ),
        ("pod-anti-affinity", [pool(), pod(**AWAY), pod("q", **AWAY)], plan(claim("p"), claim("q"))),
        ("pod-anti-affinity", [pool(), pod(**AWAY), pod("q")], plan(claim("p"), claim("q", **OPEN))),
        ("pod-anti-affinity", [pool(), node(), pod("r", node="n", **AWAY), pod()], plan(claim("p"))),
        ("pod-anti-affinity", [pool(), node(), pod("r", node="n"), pod(**AWAY)], plan(claim("p"))),
    ],
)
def test_what_pods_ask_of_each_other(rule: str, manifests: list[Object], manifest: Object) -> None:
    assert rule in rules(manifests, manifest)


def test_a_reservation_is_used_no_more_often_than_it_has_places() -> None:
    catalogue = copy.deepcopy(CATALOGUE)
    for entry in catalogue["instanceTypes"]:
        reserved = {
            "zone": "a",
            "capacityType": "reserved",
            "price": 0.0,
            "reservationId": "r",
            "reservationCapacity": 1,
        }
        entry["offerings"] = [reserved]
    manifests = [pool(), pod(), pod("q")]
    manifests[0]["spec"]["template"]["spec"]["requirements"] = []
    offering = {"instanceType": "small", "zone": "a", "capacityType": "reserved"}
    changes = {"requirements": [within(CAPACITY_TYPE, "reserved")], "price": 0.0, "offering": offering}
    claims = [claim(name, instanceTypes=["small"]) | changes for name in "pq"]
    assert rules(manifests, plan(*claims), catalogue) == {"reservations"}
    assert not rules(manifests[:2], plan(claims[0]), catalogue)


def test_sch064_a_pod_on_a_node_that_gets_the_daemon_set_it_must_keep_away_from() -> None:
    shy = app("p", "x", **affinity("podAntiAffinity", (HOST, "cache")))
    output = plan(claim("p", cpu="1010m", daemons=1))
    assert "pod-anti-affinity" in rules([pool(), labeled_daemon("cache"), shy], output)
    assert "pod-anti-affinity" not in rules([pool(), labeled_daemon("other"), shy], output)
