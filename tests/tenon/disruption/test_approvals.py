"""Commands that wait for approval: which commands wait, and what their nodes count as meanwhile."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given

from tenon.apis.approvals import (
    DEFAULT_WITHIN,
)
from tenon.apis.reasons import Reason
from tenon.disruption.commands.command_messages import to_message
from tenon.disruption.commands.open_commands import (
    awaiting_replacement,
    claims_of,
    claims_of_finished_commands,
    hosts_of,
    stale_commands,
    with_approved,
)
from tenon.disruption.deciding import eligible
from tenon.disruption.rules.approvals import MAX_WAITING, approvals_of, lost_cpu, no_longer_wanted, waiting_since
from tenon.disruption.rules.blockers import holds
from tenon.disruption.rules.pool_budgets import PoolBudgets
from tenon.disruption.situation import AskedApproval
from tenon.disruption.validation import still_allowed
from tenon.evolve import evolve
from tenon.messages.disruption import ApprovedReport
from tests.tenon.disruption.approval_setting import REFUSED, WAITING, decided, drifted_cluster, nodes_of
from tests.tenon.disruption.clusters import NOW, Cluster, NodeSpec, PoolSpec, situation
from tests.tenon.disruption.random_clusters import clusters


def test_a_command_waits_as_long_as_its_nodepool_says_and_takes_no_budget() -> None:
    """Two nodes drifted, and the budget is one. Both may wait; and what does not ask is decided as ever."""
    state = drifted_cluster(2, approve="Drifted", approve_within="48h", budgets=[{"nodes": "1"}])
    (command,) = decided(state).commands
    assert command.approve_within == timedelta(hours=48)
    message = to_message(command)
    assert message.approval is not None
    assert message.approval.seconds == 48 * 3600
    open_commands = {nodes_of(command)[0]: evolve(WAITING, command="c1")}
    after = replace(
        state, approvals=approvals_of(open_commands), under_command=claims_of(open_commands, postponed=False)
    )
    assert PoolBudgets(after, Reason.DRIFTED).left("default") == 1
    (other,) = decided(after).commands
    assert set(nodes_of(other)).isdisjoint(nodes_of(command)), "it is not proposed twice"
    (unasked,) = decided(drifted_cluster(1)).commands
    assert (unasked.approve_within, to_message(unasked).approval) == (None, None)


def test_no_more_than_ten_commands_of_a_nodepool_wait() -> None:
    state = drifted_cluster(MAX_WAITING + 5, approve="Drifted")
    commands = decided(state).commands
    assert len(commands) == MAX_WAITING
    waiting = {
        claim: AskedApproval(f"c{number}", Reason.DRIFTED, "default", NOW)
        for number, claim in enumerate(nodes_of(commands[0]) + nodes_of(commands[1]))
    }
    assert len(decided(replace(state, approvals=waiting)).commands) == MAX_WAITING - 2
    refused = {
        claim: replace(waiting_approval, refused="ann refused it") for claim, waiting_approval in waiting.items()
    }
    assert len(decided(replace(state, approvals=refused)).commands) == MAX_WAITING, "a refusal takes no place"


def test_empty_nodes_wait_only_in_the_nodepools_that_ask() -> None:
    """Emptiness removes the nodes of all NodePools with one command, which is divided."""
    pools = {"asks": PoolSpec(approve="Empty"), "free": PoolSpec(), "also": PoolSpec(approve="Drifted")}
    nodes = {name: NodeSpec(pool=name, type="m5.large") for name in pools}
    commands = {
        tuple(nodes_of(command)): command.approve_within
        for command in decided(situation(Cluster(pools=pools, nodes=nodes))).commands
    }
    assert commands == {("asks",): DEFAULT_WITHIN, ("also", "free"): None}


@pytest.mark.parametrize(
    ("rule", "waits"),
    [
        ("Empty above 1 nodes", True),
        ("Empty above 2 nodes", False),
        ("Empty above 3 cpu", True),
        ("Empty above 4 cpu", False),
        ("Empty above 9 nodes or 3 cpu", True),
    ],
)
def test_an_amount_says_which_commands_wait(rule: str, waits: bool) -> None:
    """Two empty nodes of m5.large lose a bit less than 4 CPU."""
    nodes = {name: NodeSpec(type="m5.large") for name in ("a", "b")}
    (command,) = decided(situation(Cluster(pools={"default": PoolSpec(approve=rule)}, nodes=nodes))).commands
    assert nodes_of(command) == ["a", "b"]
    assert (command.approve_within is not None) == waits


def test_a_replacement_gives_cpu_back() -> None:
    """A drifted node that another of its size replaces loses nothing."""
    state = drifted_cluster(1, types=["m5.large"], approve="Drifted above 0 cpu")
    (command,) = decided(state).commands
    assert len(command.replacements) == 1
    assert lost_cpu(command, state) == 0
    assert command.approve_within is None


def test_a_waiting_or_refused_node_stays_and_says_why() -> None:
    state = drifted_cluster(1)
    (node,) = state.nodes
    waiting = replace(state, approvals=approvals_of({"n0": WAITING}))
    (hold,) = holds(node, waiting, Reason.DRIFTED)
    assert hold.why == (
        "its removal as drifted waits for approval since 2026-11-21 12:00:00 UTC: `tenon approve drifted-1`"
    )
    assert hold.until is None
    refused = replace(state, approvals=approvals_of({"n0": REFUSED}))
    (hold,) = holds(node, refused, Reason.DRIFTED)
    assert "because ann refused it: release in progress (command drifted-1)" in hold.why
    assert hold.until == REFUSED.until
    assert decided(refused).next_pass == REFUSED.until, "a pass begins when the refusal is over"
    for reason in (Reason.EMPTY, Reason.UNHEALTHY, Reason.EXPIRED):
        assert not [hold for hold in holds(node, waiting, reason) if "approval" in hold.blocker.name], reason


def test_budgets_and_other_commands_do_not_count_what_waits_or_was_refused() -> None:
    open_commands = {"a": WAITING, "b": REFUSED}
    assert claims_of(open_commands, postponed=False) == claims_of(open_commands, postponed=True) == frozenset()
    assert hosts_of(open_commands) == frozenset(), "the nodes that its pods would go to are free"
    assert awaiting_replacement(open_commands) == {}
    started = with_approved(
        open_commands, ApprovedReport(command="drifted-1", claims=["a"], moves_pods=True), NOW, NOW + timedelta(hours=1)
    )
    assert claims_of(started, postponed=False) == {"a"}
    assert hosts_of(started) == {"host"}
    assert started["a"].since == NOW


def test_a_waiting_command_is_stale_when_its_node_leaves_or_needs_it_no_more() -> None:
    state = drifted_cluster(2)
    ledger = {"n0": WAITING, "n1": evolve(WAITING, command="drifted-2")}
    later = NOW + timedelta(days=1)
    assert claims_of_finished_commands(ledger, state.nodes, later) == [], "it may wait for days"
    leaving = [replace(node, leaving=node.claim == "n0") for node in state.nodes]
    assert claims_of_finished_commands(ledger, leaving, later) == ["n0"]
    assert no_longer_wanted(ledger, state.nodes, {"n0": True, "n1": False}) == ["n1"]
    assert list(stale_commands(ledger, {"n0": WAITING})) == ["drifted-2"]
    ledger_after = {**ledger, "n0": evolve(WAITING, command="empty-1", reason="Empty", awaits_approval=False)}
    assert list(stale_commands(ledger, ledger_after)) == ["drifted-1"], "another command took its node"
    empties = {name: evolve(WAITING, command="e", reason="Empty") for name in ("a", "b")}
    assert stale_commands(empties, {"b": empties["b"]}) == {}, "the other node is still empty"
    assert list(stale_commands(empties, {})) == ["e"]


def test_what_waits_is_counted_by_nodepool_and_reason() -> None:
    later = NOW + timedelta(hours=1)
    open_commands = {
        "a": evolve(WAITING, command="empty-1", reason="Empty"),
        "b": evolve(WAITING, command="empty-1", reason="Empty"),
        "c": evolve(WAITING, command="drifted-2", since=later),
        "d": WAITING,
        "e": REFUSED,
    }
    assert waiting_since(approvals_of(open_commands)) == {
        ("default", Reason.EMPTY): [NOW],
        ("default", Reason.DRIFTED): [later, NOW],
    }


@given(clusters())
def test_approvals_only_hold_back_and_never_go_beyond_the_limits(cluster: Cluster) -> None:
    """Whatever asks: at most ten commands of a NodePool wait, the others stay within budgets, and no node is in two."""
    asking_pools = {
        name: pool.model_copy(update={"approve": "Drifted, Underutilized, Empty"})
        for name, pool in cluster.pools.items()
    }
    state = situation(cluster.model_copy(update={"pools": asking_pools}))
    commands = decided(state).commands
    waiting = Counter(
        pool
        for command in commands
        if command.approve_within is not None
        for pool in {candidate.node.pool for candidate in command.candidates}
    )
    assert all(number <= MAX_WAITING for number in waiting.values())
    claims = [claim for command in commands for claim in nodes_of(command)]
    assert len(claims) == len(set(claims))
    assert all(
        command.approve_within is not None for command in commands if command.reason in (Reason.DRIFTED, Reason.EMPTY)
    )
    again = still_allowed(
        [to_message(command) for command in commands if command.moves_pods], replace(state, model=None)
    )
    assert {command.id for command in again} <= {to_message(command).id for command in commands}
    asked_approvals = {claim: AskedApproval("c", Reason.DRIFTED, "default", NOW) for claim in claims}
    free = {node.claim for node in eligible(replace(state, approvals=asked_approvals), Reason.DRIFTED)}
    assert free.isdisjoint(claims)
