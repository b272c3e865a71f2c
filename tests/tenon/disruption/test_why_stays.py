"""Each sentence that says why a node is not disrupted."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tenon.apis.disruption_windows import read_windows
from tenon.disruption.decision import DisruptionBlocked
from tenon.disruption.history.arrivals import Arrival, arriving
from tenon.disruption.situation import Situation
from tenon.disruption.why_stays import WhyStays
from tests.tenon.disruption.clusters import NOW, Cluster, situation

ONE = [{"cpu": "1"}]


def given(node: dict[str, Any] | None = None, pool: dict[str, Any] | None = None, **more: Any) -> Situation:
    """A cluster with the node n1, which has one small pod."""
    nodes = {"n1": {"pods": ONE, **(node or {})}, **more.pop("nodes", {})}
    return situation(Cluster.model_validate({"pools": {"default": pool or {}}, "nodes": nodes, **more}))


def sentences(situation: Situation, name: str = "n1", **options: Any) -> tuple[str, ...]:
    """Why a node stays."""
    (node,) = [node for node in situation.nodes if node.claim == name]
    return WhyStays(situation, **options).sentences(node)


@pytest.mark.parametrize(
    ("node", "more", "sentence"),
    [
        ({"leaving": True}, {}, "It is already leaving"),
        ({"initialized": False}, {}, "Its NodeClaim is not initialized"),
        (
            {"protected": True},
            {},
            'The "karpenter.sh/do-not-disrupt" annotation of its Node protects it',
        ),
        ({"disruptedBy": "drifted-1"}, {}, "Disruption command drifted-1 is about to remove it"),
        ({"replacementFor": "x-1"}, {}, "It was created for disruption command x-1, which has not ended"),
        ({}, {"underCommand": ["n1"]}, "An open disruption command removes it"),
        ({}, {"nominated": ["n1"]}, "Pods that have no node yet are expected to run on it"),
    ],
)
def test_rules_about_the_node_itself_are_all_that_is_said(
    node: dict[str, Any], more: dict[str, Any], sentence: str
) -> None:
    assert sentences(given(node, **more)) == (sentence,)


def test_a_node_of_an_unknown_pool_stays() -> None:
    changed_situation = replace(given(), policies={})
    assert sentences(changed_situation) == ("NodePool default does not exist or cannot be read",)


@pytest.mark.parametrize(
    ("node", "pool", "sentence"),
    [
        ({}, {"consolidateAfter": None}, "consolidateAfter of NodePool default is Never"),
        (
            {},
            {"policy": "WhenEmpty"},
            "consolidationPolicy of NodePool default is WhenEmpty, and it has 1 pod",
        ),
        (
            {"heldBy": "pod default/web: PodDisruptionBudget web allows no eviction"},
            {},
            "Pod default/web: PodDisruptionBudget web allows no eviction",
        ),
        (
            {"quiet": "1h"},
            {"consolidateAfter": "2h"},
            "A pod came or went, or the node was initialized, at 2026-11-21 11:00:00 UTC, and consolidateAfter of "
            "NodePool default is over at 2026-11-21 13:00:00 UTC",
        ),
        ({"quiet": None}, {}, "It is not known when a pod last came or went"),
        (
            {"price": 0.0},
            {},
            "Its price is not known: the catalogue has no m5.xlarge (on-demand, us-west-2a)",
        ),
        (
            {"pods": []},
            {"consolidateAfter": None},
            "consolidateAfter of NodePool default is Never",
        ),
        (
            {"pods": [], "quiet": "1h"},
            {"consolidateAfter": "2h"},
            "It has been empty since 2026-11-21 11:00:00 UTC, and consolidateAfter of NodePool default is over at "
            "2026-11-21 13:00:00 UTC",
        ),
    ],
)
def test_the_policy_and_the_pods_come_first(node: dict[str, Any], pool: dict[str, Any], sentence: str) -> None:
    assert sentences(given(node, pool))[0] == sentence


def test_a_static_pool_keeps_its_nodes() -> None:
    situation = given()
    policy = replace(situation.policies["default"], consolidate_after=None, replicas=3)
    expected = "NodePool default is static: it keeps spec.replicas nodes, empty or not"
    assert sentences(replace(situation, policies={"default": policy})) == (expected,)


DEAR = (
    "It costs $2.4480 an hour because it was bought in a capacity shortage, when EC2 refused cheaper nodes at $0.0765"
)


def in_shortage(situation: Situation) -> Situation:
    """The situation in which n1 was bought in a capacity shortage."""
    nodes = [replace(node, bought_in_shortage=node.claim == "n1", usual_price=0.0765) for node in situation.nodes]
    return replace(situation, nodes=nodes)


@pytest.mark.parametrize(
    ("node", "pool", "why"),
    [
        ({"protected": True}, {}, 'The "karpenter.sh/do-not-disrupt" annotation of its Node protects it'),
        ({"heldBy": "pod default/web: annotation karpenter.sh/do-not-disrupt protects it"}, {}, "Pod default/web: "),
        ({}, {"budgets": [{"nodes": "0"}]}, "Budget (nodes: 0) of NodePool default allows no more of its 1 node "),
        ({}, {"policy": "WhenEmpty"}, "consolidationPolicy of NodePool default is WhenEmpty, and it has 1 pod"),
    ],
)
def test_a_node_bought_in_a_shortage_says_that_it_is_dear_and_then_why_it_stays(
    node: dict[str, Any], pool: dict[str, Any], why: str
) -> None:
    dear, stays, *_ = sentences(in_shortage(given({"price": 2.448, **node}, pool)))
    assert dear == DEAR
    assert stays.startswith(why)


def test_a_static_node_bought_in_a_shortage_says_that_it_is_dear_too() -> None:
    situation = in_shortage(given({"price": 2.448}))
    policy = replace(situation.policies["default"], consolidate_after=None, replicas=3)
    static = "NodePool default is static: it keeps spec.replicas nodes, empty or not"
    assert sentences(replace(situation, policies={"default": policy})) == (DEAR, static)


def test_a_node_bought_in_a_shortage_that_leaves_is_not_called_dear() -> None:
    assert sentences(in_shortage(given({"leaving": True}))) == ("It is already leaving",)


def test_a_buffer_and_arriving_pods_keep_a_node() -> None:
    assert sentences(given(bufferHosts=["n1"]))[0] == "A CapacityBuffer or the floor of a NodeSchedule keeps room on it"
    empty = sentences(given({"pods": []}, bufferHosts=["n1"]))
    assert empty[0] == "It is empty, but a CapacityBuffer or the floor of a NodeSchedule keeps room on it"
    assert (
        sentences(replace(given(), destinations=frozenset({"n1"})))[0] == "Pods of other nodes are about to move to it"
    )


def test_a_budget_that_others_use_up_names_them() -> None:
    pool = {"budgets": [{"nodes": "1"}]}
    situation = given(pool=pool, nodes={"n2": {"pods": ONE, "ready": False}})
    assert sentences(situation)[0] == (
        "Budget (nodes: 1) of NodePool default allows no more of its 2 nodes to be disrupted for Underutilized; "
        "n2 counts as unavailable"
    )


def test_a_budget_with_a_schedule_says_when_it_opens_in_utc() -> None:
    budget = {"nodes": "0", "schedule": "0 9 * * *", "duration": "8h", "reasons": ["Underutilized"]}
    assert sentences(given(pool={"budgets": [budget]}))[0] == (
        "Budget (nodes: 0, reasons: Underutilized, schedule: 0 9 * * *, duration: 8h) of NodePool default allows no "
        "more of its 1 node to be disrupted for Underutilized; it opens at 2026-11-21 17:00:00 UTC"
    )


def test_an_empty_nodes_budget_is_that_of_the_reason_empty() -> None:
    budgets = [{"nodes": "0", "reasons": ["Empty"]}]
    (sentence,) = sentences(given({"pods": []}, {"budgets": budgets}))
    assert sentence.startswith("Budget (nodes: 0, reasons: Empty) of NodePool default")


def test_a_replacement_that_costs_more_says_by_how_much() -> None:
    situation = given({"price": 0.01}, {"types": ["m5.large"]})
    assert sentences(situation) == (
        "Its 1 pod would need 1 new node, at best m5.large (on-demand, us-west-2a, $0.0960 an hour)",
        "The node costs $0.0100 an hour, so its replacement is $0.0860 an hour too expensive",
    )


def test_a_replacement_that_costs_the_same_is_no_cheaper() -> None:
    situation = given({"type": "m5.large"}, {"types": ["m5.large"]})
    assert sentences(situation)[-1] == "The node costs $0.0960 an hour, so its replacement is no cheaper"


def test_a_cheaper_replacement_says_what_it_would_save() -> None:
    situation = given(pool={"types": ["m5.large", "m5.xlarge"]})
    assert sentences(situation) == (
        "Its 1 pod would need 1 new node, at best m5.large (on-demand, us-west-2a, $0.0960 an hour), which would save "
        "$0.0960 an hour",
        "A later check may remove it, unless it finds something better",
    )


def test_room_on_other_nodes_is_named() -> None:
    situation = given(nodes={"n2": {"pods": ONE}})
    assert sentences(situation)[0] == "Its 1 pod fits on 1 existing node (n2), which would save $0.1920 an hour"


def test_a_pod_without_another_place_is_named_with_the_reason() -> None:
    situation = given({"pods": [{"cpu": "3"}]}, {"types": ["m5.large"]})
    (sentence,) = sentences(situation)
    assert sentence.startswith("Pod default/n1-0-0 has no other place: ")


def test_a_spot_node_names_the_feature_gate() -> None:
    situation = given({"capacityType": "spot"}, {"capacityTypes": ["spot"], "types": ["m5.large", "m5.xlarge"]})
    assert "feature gate SpotToSpotConsolidation" in sentences(situation)[-1]
    assert sentences(situation, spot_to_spot=True)[-1] == (
        "It is a spot node, which is replaced only if 15 instance types are cheaper"
    )


def test_a_balanced_pool_says_what_the_move_scores() -> None:
    large = {"type": "m5.4xlarge", "pods": [{"cpu": "15"}]}
    situation = given(
        {"pods": [{"count": 3, "cpu": "1"}], "price": 0.1},
        {"policy": "Balanced", "types": ["m5.xlarge", "m5.4xlarge"]},
        nodes={"n2": {**large}, "n3": {"pods": []}},
    )
    assert any(text.startswith("NodePool default is Balanced: this would score 0.") for text in sentences(situation))


def test_a_drifted_node_says_why_it_cannot_leave() -> None:
    situation = given()
    assert situation.model is not None
    detail = replace(situation.model.details["n1"], drifted="AMIDrift", drift_message="the image changed")
    drifted = replace(situation, model=replace(situation.model, details={"n1": detail}))
    assert sentences(drifted)[:2] == ("Its node drifted (AMIDrift): the image changed", "A later check replaces it")
    blocked = {
        "n1": DisruptionBlocked(
            "its node drifted (AMIDrift)", "pod default/web: PodDisruptionBudget web allows no eviction"
        )
    }
    assert sentences(drifted, blocked=blocked)[0] == (
        "Its node drifted (AMIDrift), but pod default/web: PodDisruptionBudget web allows no eviction"
    )


def test_nothing_is_due_before_the_instant_at_which_consolidate_after_is_over() -> None:
    situation = given({"quiet": "1h"}, {"consolidateAfter": "2h"})
    later = replace(situation, now=NOW + timedelta(hours=1))
    assert not any("is over at" in text for text in sentences(later))


def test_wsh01_a_node_that_rests_says_until_when() -> None:
    situation = given({"age": "90m", "created_for": "Underutilized"}, {"rest": "2h"})
    assert any("so it rests until 2026-11-21 12:30:00 UTC" in sentence for sentence in sentences(situation))


@pytest.mark.parametrize(
    ("before", "message"),
    [
        (0, "once in the last day, at 2026-11-21 11:30:00 UTC for the last time, so consolidation lets it rest"),
        (1, "2 times in the last day, at 2026-11-21 11:30:00 UTC for the last time, so consolidation lets it rest"),
    ],
)
def test_wsh01_a_node_whose_pods_rest_says_which_and_until_when(before: int, message: str) -> None:
    situation = given()
    assert situation.model is not None
    at = NOW - timedelta(minutes=30)
    pods = tuple(replace(pod, created=at.timestamp()) for pod in situation.model.details["n1"].pods)
    detail = replace(situation.model.details["n1"], pods=pods)
    times = arriving(pods, dict.fromkeys((pod.key for pod in pods), before))
    nodes = [replace(node, arrivals=(Arrival(at, times),)) for node in situation.nodes]
    model = replace(situation.model, details={**situation.model.details, "n1": detail})
    (sentence,) = [text for text in sentences(replace(situation, nodes=nodes, model=model)) if "rest until" in text]
    until = "2026-11-21 12:30:00 UTC" if before == 0 else "2026-11-22 11:30:00 UTC"
    assert sentence == f"Disruption commands have moved its pod {pods[0].key} {message} until {until}"


def test_wsh14_outside_its_disruption_windows_a_node_says_when_they_open() -> None:
    situation = given()
    windows = read_windows('[{"schedule": "0 2 * * 6", "duration": "3h", "timezone": "Europe/Berlin"}]')
    policies = {name: replace(policy, windows=windows) for name, policy in situation.policies.items()}
    text = (
        "NodePool default allows no disruption for Underutilized: it is outside its disruption windows, the next opens "
        "on Sat 2026-11-28 at 02:00 Europe/Berlin"
    )
    assert text in sentences(replace(situation, policies=policies))


def test_wsh01_a_node_of_a_pool_that_is_slowed_down_stays() -> None:
    changed_situation = replace(given(), slowed={"default": "its last commands saved nothing"})
    assert "NodePool default is slowed down: its last commands saved nothing" in sentences(changed_situation)
    assert not any("slowed" in sentence for sentence in sentences(replace(given(), slowed={"default": ""})))
