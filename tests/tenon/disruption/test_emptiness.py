"""Which empty nodes leave, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenon.apis.nodepool import Budget
from tenon.apis.reasons import Reason
from tenon.disruption.deciding import decide
from tenon.disruption.decision import Candidate
from tenon.disruption.methods.emptiness import Emptiness
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.pool_policy import PoolPolicy
from tenon.disruption.situation import Situation

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
TTL = timedelta(seconds=30)
NODE = ManagedNode(
    claim="default-a",
    uid="u-a",
    pool="default",
    initialized=True,
    ready=True,
    leaving=False,
    empty=True,
    quiet_since=NOW - TTL,
)
POLICIES = {"default": PoolPolicy("default", TTL, (Budget(nodes="100%"),))}
NOBODY: frozenset[str] = frozenset()


def empty_nodes(
    nodes: Sequence[ManagedNode], policies: Mapping[str, PoolPolicy], *, under_command: frozenset[str], now: datetime
) -> tuple[list[Candidate], datetime | None]:
    decision = decide(Situation(nodes, policies, now, under_command), [Emptiness()])
    assert not decision.failed
    assert {command.reason for command in decision.commands} <= {Reason.EMPTY}
    assert all(command.only_if_empty for command in decision.commands)
    return [candidate for command in decision.commands for candidate in command.candidates], decision.next_pass


@pytest.mark.parametrize("overdue", [timedelta(0), timedelta(hours=1)])
def test_dis30_a_node_leaves_at_once_when_its_time_has_passed(overdue: timedelta) -> None:
    """DIS-30, DIS-45: the command counts from now, also for a node that a budget kept for an hour."""
    late = replace(NODE, quiet_since=NOW - TTL - overdue)
    result, _ = empty_nodes([late], POLICIES, under_command=NOBODY, now=NOW)
    assert [(e.node.claim, e.since) for e in result] == [("default-a", NOW - TTL - overdue)]


def test_dis30_before_that_nothing_is_decided_and_the_next_pass_is_known() -> None:
    """No polling, and nothing that could change until then is judged yet (DIS-46, DIS-53)."""
    nodes = [replace(NODE, claim=f"default-{age}", quiet_since=NOW - timedelta(seconds=age)) for age in (5, 29)]
    result, again = empty_nodes(nodes, POLICIES, under_command=NOBODY, now=NOW)
    assert result == []
    assert again == NOW + timedelta(seconds=1)


@pytest.mark.parametrize(
    "change",
    [
        {"initialized": False},
        {"leaving": True},
        {"empty": False},
        {"protected_by": "an annotation"},
        {"quiet_since": None},
        {"pool": "gone"},
        {"held_by": "pod kube-system/agent: annotation karpenter.sh/do-not-disrupt protects it"},
    ],
)
def test_dis10_dis11_nodes_that_are_no_candidates(change: dict[str, Any]) -> None:
    """DIS-10, DIS-11, DIS-13."""
    result, _ = empty_nodes([replace(NODE, **change)], POLICIES, under_command=NOBODY, now=NOW)
    assert result == []


def test_consolidate_after_never_keeps_empty_nodes() -> None:
    """NP-16: consolidateAfter: Never."""
    policies = {"default": PoolPolicy("default", None)}
    assert empty_nodes([NODE], policies, under_command=NOBODY, now=NOW) == ([], None)


def test_budgets_take_the_longest_empty_first_and_count_what_leaves() -> None:
    """DIS-50..52 and the open commands."""
    nodes = [replace(NODE, claim=f"default-{n}", quiet_since=NOW - TTL - timedelta(seconds=n)) for n in range(5)] + [
        replace(NODE, claim="default-x", leaving=True)
    ]
    policies = {"default": PoolPolicy("default", TTL, (Budget(nodes="3"),))}
    result, _ = empty_nodes(nodes, policies, under_command=frozenset({"default-4"}), now=NOW)
    assert [e.node.claim for e in result] == ["default-3"]


def test_dis50_nodes_whose_instance_is_being_ended_are_not_counted() -> None:
    """Of 20 nodes 10 are nearly gone: a budget of 10 % lets one of the other 10 go."""
    nodes = [replace(NODE, claim=f"default-{n:02}", uid=f"u-{n}") for n in range(20)]
    nodes[10:] = [replace(node, leaving=True, terminating=True, empty=False) for node in nodes[10:]]
    policies = {"default": PoolPolicy("default", TTL, (Budget(nodes="10%"),))}
    result, _ = empty_nodes(nodes, policies, under_command=NOBODY, now=NOW)
    assert len(result) == 1


@pytest.mark.parametrize("names", [{"default-a"}, {"node-a"}])
def test_dis10_cb08_a_node_that_pods_or_buffers_count_on_is_not_taken(names: set[str]) -> None:
    """Whether it is known by its NodeClaim or by its Node."""
    situation = Situation([replace(NODE, node="node-a")], POLICIES, NOW)
    assert len(decide(situation).commands) == 1
    assert decide(replace(situation, nominated=frozenset(names))).commands == ()
    assert decide(replace(situation, buffer_hosts=frozenset(names))).commands == ()
