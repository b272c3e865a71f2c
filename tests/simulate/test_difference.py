"""What differs between two plans, and how a page shows it."""

from __future__ import annotations

from typing import Any

from tenon.page.markup import tag
from tenon.simulation.difference import NodeChange, NodeKind, PodChange, difference
from tenon.simulation.html_difference import compared_content
from tenon.simulation.report import PlanReport

M5 = NodeKind("web", "m5.large", "spot", "us-west-2a")
C5 = NodeKind("web", "c5.large", "on-demand", "us-west-2b")
OLD_NODE = NodeKind("", "n1")


def claim(kind: NodeKind, price: float, *pods: str) -> dict[str, Any]:
    offering = {"instanceType": kind.instance_type, "capacityType": kind.capacity_type, "zone": kind.zone}
    return {"nodePool": kind.pool, "offering": offering, "price": price, "pods": [f"shop/{pod}" for pod in pods]}


def document(
    *claims: dict[str, Any], node: tuple[str, ...] = (), unschedulable: dict[str, str] | None = None
) -> dict[str, Any]:
    reasons = unschedulable or {}
    price = round(sum(entry["price"] for entry in claims), 6)
    totals = {
        "pricePerHour": price,
        "lowerBoundPricePerHour": 0.0,
        "nodes": len(claims),
        "pods": sum(len(entry["pods"]) for entry in claims) + len(node) + len(reasons),
        "unschedulable": len(reasons),
    }
    return {
        "nodeClaims": list(claims),
        "existingNodes": [{"name": "n1", "pods": [f"shop/{pod}" for pod in node]}] if node else [],
        "unschedulable": [{"pod": f"shop/{pod}", "reason": reason} for pod, reason in reasons.items()],
        "disruption": [],
        "totals": totals,
    }


def test_equal_plans_differ_in_nothing_although_pods_changed_places_among_equal_nodes() -> None:
    before = document(claim(M5, 0.1, "web-0", "web-1"), claim(M5, 0.1, "web-2"))
    after = document(claim(M5, 0.1, "web-2", "web-1"), claim(M5, 0.1, "web-0"))
    assert difference(before, after).is_empty


def test_pods_that_come_to_other_kinds_of_nodes_are_counted_by_workload() -> None:
    before = document(claim(M5, 0.1, "web-0", "web-1", "api-0"))
    after = document(claim(C5, 0.3, "web-0", "web-1"), node=("api-0",))
    result = difference(before, after)
    assert result.moves == [PodChange("shop/web", 2, M5, C5), PodChange("shop/api", 1, M5, OLD_NODE)]
    assert result.nodes == [NodeChange(C5, 0, 1, 0.0, 0.3), NodeChange(M5, 1, 0, 0.1, 0.0)]


def test_pods_without_a_node_have_the_reason_before_and_after() -> None:
    before = document(claim(M5, 0.1, "web-0", "web-1"), unschedulable={"db-0": "no type is large enough"})
    after = document(claim(C5, 0.3, "db-0"), unschedulable={"web-0": "limit", "web-1": "limit"})
    result = difference(before, after)
    assert result.unschedulable == [PodChange("shop/web", 2, M5, None, "limit")]
    assert result.schedulable == [PodChange("shop/db", 1, None, C5, "no type is large enough")]
    assert not result.moves


def test_a_price_alone_is_a_difference() -> None:
    result = difference(document(claim(M5, 0.1, "web-0")), document(claim(M5, 0.2, "web-0")))
    assert result.nodes == [NodeChange(M5, 1, 1, 0.1, 0.2)]
    assert not result.moves


def test_pods_of_only_one_plan_are_new_or_gone() -> None:
    result = difference(document(claim(M5, 0.1, "web-0", "old-0")), document(claim(M5, 0.1, "web-0", "new-0", "new-1")))
    assert (result.added, result.removed) == ({"shop/new": 2}, {"shop/old": 1})


def shown(before: dict[str, Any], after: dict[str, Any]) -> str:
    return tag("div", compared_content(PlanReport(before, []), PlanReport(after, [])))


def test_the_page_says_first_what_the_change_costs_and_who_is_left_without_a_node() -> None:
    before = document(claim(M5, 0.1, "web-0", "web-1", "api-0"))
    after = document(claim(C5, 0.15, "api-0"), unschedulable={"web-0": "limit <b>", "web-1": "limit <b>"})
    html = shown(before, after)
    assert "The new nodes cost $0.0500 an hour more (+50.0%)" in html
    assert "1 pod comes to other nodes" in html
    assert "2 pods can no longer be scheduled" in html
    assert "<code>shop/web</code> x2: limit &lt;b&gt;" in html
    cheaper = shown(after, before)
    assert "The new nodes cost $0.0500 an hour less (-33.3%)" in cheaper
    assert "Pods that find a node now, and why they had none (2)" in cheaper


def test_a_price_that_falls_because_pods_find_no_node_is_not_shown_as_a_saving() -> None:
    first, second = claim(M5, 0.1, "web-0"), claim(C5, 0.3, "web-1")
    assert 'class="less"' not in shown(document(first, second), document(first, unschedulable={"web-1": "limit"}))
    assert 'class="less"' in shown(document(first, second), document(first, node=("web-1",)))


def test_the_page_says_that_nothing_differs() -> None:
    same = document(claim(M5, 0.1, "web-0"))
    assert "Both plans buy the same nodes at the same prices for the same pods." in shown(same, same)
