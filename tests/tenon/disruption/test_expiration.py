"""Expired nodes of NodePools whose budgets cover expiration, and the annotation that asks for it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenon.apis import labels
from tenon.apis.expiration import expires_within_budgets
from tenon.apis.nodepool import Budget
from tenon.apis.reasons import Reason
from tenon.apis.validation import check_nodepool
from tenon.disruption.deciding import decide
from tenon.disruption.decision import Decision
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.pool_policy import PoolPolicy, policy_of
from tenon.disruption.rules.pool_budgets import budget_states
from tenon.disruption.situation import Situation
from tests.activities.provisioning.fake_view import node_pool

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
TWO = PoolPolicy("default", None, (Budget(nodes="2"),), expire_within_budgets=True)


def node(name: str, expired_for: timedelta = HOUR, **changed: Any) -> ManagedNode:
    managed_node = ManagedNode(name, f"uid-{name}", "default", True, True, False, False, None)
    return replace(managed_node, expires_at=NOW - expired_for, **changed)


def decision(*nodes: ManagedNode, policy: PoolPolicy = TWO, **value: Any) -> Decision:
    result = decide(Situation(nodes, {"default": policy}, NOW, **value))
    assert not result.failed
    return result


def removed(decision: Decision) -> list[str]:
    return [candidate.node.claim for command in decision.commands for candidate in command.candidates]


def test_wsh28_the_first_expired_leave_within_the_budget_with_or_without_pods() -> None:
    result = decision(node("a"), node("b", 3 * HOUR), node("c", 2 * HOUR), node("d", -HOUR))
    (command,) = result.commands
    assert removed(result) == ["b", "c"]
    assert (command.reason, command.only_if_empty, command.moves_pods, command.replacements) == (
        Reason.EXPIRED,
        False,
        False,
        (),
    )
    assert result.next_pass == NOW + HOUR
    assert result.eligible[Reason.EXPIRED] == 3


@pytest.mark.parametrize("away", [{"leaving": True}, {"ready": False}, {"disrupted_by": "drifted-1"}])
def test_wsh28_nodes_that_are_away_for_any_reason_use_the_budget(away: dict[str, Any]) -> None:
    assert removed(decision(node("a"), node("b"), node("c", -HOUR, **away))) == ["a"]


def test_wsh28_without_the_annotation_expired_nodes_are_left_to_their_workflows() -> None:
    result = decision(node("a"), node("b", -HOUR), policy=replace(TWO, expire_within_budgets=False))
    assert (result.commands, result.next_pass, result.eligible[Reason.EXPIRED]) == ((), None, 0)


@pytest.mark.parametrize("hold", [{"protected_by": "an annotation"}, {"replacement_for": "drifted-1"}])
def test_qrk13_what_keeps_other_methods_away_does_not_keep_an_expired_node(hold: dict[str, Any]) -> None:
    """DIS-84: expiration is forceful with budgets too. The pods are protected by the drain."""
    assert removed(decision(node("a", **hold))) == ["a"]
    assert removed(decision(node("a"), nominated=frozenset({"a"}), postponed=frozenset({"a"}))) == ["a"]


@pytest.mark.parametrize(
    "occupancy", [{"leaving": True}, {"disrupted_by": "drifted-1"}, {"initialized": False}, {"pool": "gone"}]
)
def test_wsh28_a_node_that_another_command_removes_is_left_to_it(occupancy: dict[str, Any]) -> None:
    """A node that is not initialized leaves by its own workflow, because budgets do not count it."""
    assert removed(decision(node("a", **occupancy))) == []
    assert removed(decision(node("a"), under_command=frozenset({"a"}))) == []


def test_wsh28_an_expired_node_goes_before_an_empty_one() -> None:
    """An empty node may wait: it costs money, and an expired one is overdue."""
    empty = node("a", -HOUR, empty=True, quiet_since=NOW - HOUR)
    policy = replace(TWO, budgets=(Budget(nodes="1"),), consolidate_after=timedelta())
    assert removed(decision(empty, node("b"), policy=policy)) == ["b"]


def test_wsh28_only_budgets_without_reasons_cover_expiration() -> None:
    for_drift = replace(TWO, budgets=(Budget(nodes="0", reasons=["Drifted", "Empty", "Underutilized"]),))
    assert removed(decision(node("a"), node("b"), policy=for_drift)) == ["a", "b"]


def test_wsh28_budgets_are_reported_for_expiration_only_where_they_cover_it() -> None:
    """DIS-55: a gauge and an event for a reason that budgets do not hold back would mislead."""
    closed = replace(TWO, name="closed", budgets=(Budget(nodes="0"),))
    plain = replace(TWO, name="plain", expire_within_budgets=False)
    states = budget_states(Situation([node("a", pool="closed")], {"closed": closed, "plain": plain}, NOW))
    assert [(state.pool, state.blocks) for state in states if state.reason is Reason.EXPIRED] == [("closed", True)]


@pytest.mark.parametrize(("text", "waits"), [("true", True), ("false", False)])
def test_wsh28_the_annotation_is_true_or_false(text: str, waits: bool) -> None:
    pool = node_pool(annotations={labels.EXPIRE_WITHIN_BUDGETS: text})
    assert check_nodepool(pool) == []
    assert policy_of(pool).expire_within_budgets is waits
    assert expires_within_budgets(pool.metadata.annotations) is waits


@pytest.mark.parametrize("text", ["", "True", "yes", "1", " true"])
def test_wsh28_a_broken_annotation_is_refused_and_costs_no_node(text: str) -> None:
    pool = node_pool(annotations={labels.EXPIRE_WITHIN_BUDGETS: text})
    (fault,) = check_nodepool(pool)
    assert fault.path == "metadata.annotations[tenon.sh/expire-within-budgets]"
    assert "is neither true nor false" in fault.sentence
    assert policy_of(pool).expire_within_budgets


def test_wsh28_a_pool_without_the_annotation_expires_nodes_at_once() -> None:
    assert not policy_of(node_pool()).expire_within_budgets
