"""When a disruption command's hold on a node is over."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tenon.apis.reasons import Reason
from tenon.disruption.commands.open_commands import (
    GRACE_PERIOD,
    PREPARED_WITHIN,
    claims_of,
    claims_of_finished_commands,
    commands_without,
    hosts_of,
    only_waits,
    with_ended,
    without_postponed_since,
)
from tenon.disruption.deciding import eligible
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.pool_policy import PoolPolicy
from tenon.disruption.rules.pool_budgets import PoolBudgets
from tenon.disruption.situation import Situation
from tenon.evolve import evolve
from tenon.messages.disruption import OpenCommand

DUE = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
NODE = ManagedNode("a", "u", "default", True, True, False, True, DUE)
LEAVING = ManagedNode("a", "u", "default", True, True, True, True, DUE)
OPEN = {
    "a": OpenCommand(
        command="c1", reason="Empty", pool="default", until=DUE + timedelta(minutes=10), due=DUE, since=DUE
    )
}


@pytest.mark.parametrize(
    ("nodes", "after", "expected"),
    [
        ([NODE], timedelta(), []),
        ([NODE], GRACE_PERIOD + timedelta(seconds=1), ["a"]),
        ([LEAVING], timedelta(minutes=5), []),
        ([], timedelta(), ["a"]),
    ],
)
def test_a_node_that_stayed_or_is_gone_frees_its_budget(
    nodes: list[ManagedNode], after: timedelta, expected: list[str]
) -> None:
    """DIS-52: a withdrawal must not hold the budget for minutes."""
    assert claims_of_finished_commands(OPEN, nodes, DUE + after) == expected


def test_a_node_whose_command_failed_is_not_moved_and_not_counted_by_budgets() -> None:
    """Emptiness may still take it, because only commands that move pods know that it is postponed."""
    open_commands = {**OPEN, "failed": evolve(OPEN["a"], postponed=True)}
    assert claims_of(open_commands, postponed=False) == {"a"}
    assert claims_of(open_commands, postponed=True) == {"failed"}
    nodes = [replace(NODE, claim="failed"), replace(NODE, claim="free")]
    situation = Situation(nodes, {"default": PoolPolicy("default", None)}, DUE, postponed=frozenset({"failed"}))
    assert [managed_node.claim for managed_node in eligible(situation, Reason.DRIFTED)] == ["free"]
    assert PoolBudgets(situation, Reason.DRIFTED).left("default") == 1


def test_a_command_that_moves_pods_holds_its_node_until_its_mark_is_gone() -> None:
    """It has no due time. An operator may have terminated it, and then its mark is removed."""
    entry = OpenCommand(command="c1", reason="Drifted", pool="default", until=DUE + timedelta(hours=1), since=DUE)
    marked = replace(NODE, disrupted_by="c1")
    late = DUE + PREPARED_WITHIN + timedelta(seconds=1)
    assert claims_of_finished_commands({"a": entry}, [NODE], DUE + timedelta(seconds=20)) == []
    assert claims_of_finished_commands({"a": entry}, [marked], late) == []
    assert claims_of_finished_commands({"a": entry}, [NODE], late) == ["a"]


def test_a_node_that_its_command_gave_up_after_the_planner_was_asked_rests() -> None:
    """The planner has only seen that the node lost its mark. A pause that it has seen itself may be over."""
    until = DUE + timedelta(minutes=5)
    postponed = evolve(OPEN["a"], postponed=True, due=until, until=until)
    assert without_postponed_since(["a"], OPEN, {"a": postponed}) == []
    assert without_postponed_since(["a"], {"a": postponed}, {"a": postponed}) == ["a"]
    longer = evolve(postponed, until=until + timedelta(minutes=5))
    assert without_postponed_since(["a"], {"a": postponed}, {"a": longer}) == []
    assert without_postponed_since(["a"], OPEN, OPEN) == ["a"]
    assert without_postponed_since(["a"], OPEN, {"a": evolve(OPEN["a"], ended=True)}) == ["a"], "it has only ended"
    assert without_postponed_since(["a"], OPEN, {}) == ["a"]


def test_dis62_no_other_command_removes_a_node_that_pods_move_to() -> None:
    """Until the command is over: its pods would have to go elsewhere, where nobody knows that they moved."""
    host = replace(NODE, claim="b", node="node-b", empty=False)
    policies = {"default": PoolPolicy("default", timedelta())}
    entry = evolve(OPEN["a"], hosts=["b"])
    for open_commands, free in (({"a": entry}, []), ({"a": evolve(entry, postponed=True)}, ["b"]), ({}, ["b"])):
        situation = Situation([host], policies, DUE, nominated=hosts_of(open_commands))
        assert [node.claim for node in eligible(situation, Reason.DRIFTED)] == free


def test_dis62_nodes_that_pods_move_to_are_protected_while_a_candidate_is_left() -> None:
    """The first one that leaves, or that refuses, does not end the command for the others."""
    first, other = evolve(OPEN["a"], hosts=["h", "i"]), OPEN["a"]
    elsewhere = evolve(other, command="c2", hosts=["j"])
    open_commands = {"a": first, "b": other, "c": other, "d": elsewhere}
    for removal, hosts in (
        ("", "hij"),
        ("a", "hij"),
        ("ab", "hij"),
        ("c", "hij"),
        ("abc", "j"),
        ("abcd", ""),
        ("x", "hij"),
    ):
        assert sorted(hosts_of(commands_without(open_commands, set(removal)))) == list(hosts), removal
    assert commands_without(open_commands, "a") == {"b": first, "c": other, "d": elsewhere}
    assert sorted(hosts_of({**open_commands, "a": evolve(first, postponed=True)})) == ["h", "i", "j"]


def test_a_node_may_be_moved_again_as_soon_as_its_pause_is_over() -> None:
    """Only a node that accepted a command needs time to begin to leave."""
    entry = evolve(OPEN["a"], postponed=True)
    assert claims_of_finished_commands({"a": entry}, [NODE], DUE) == []
    assert claims_of_finished_commands({"a": entry}, [NODE], DUE + timedelta(seconds=1)) == ["a"]


def test_a_command_that_has_ended_still_counts_and_one_that_nobody_answered_holds_nothing() -> None:
    waiting_entry = evolve(OPEN["a"], command="c2", due=None, awaits_approval=True)
    open_commands = with_ended(with_ended({**OPEN, "b": waiting_entry, "c": OPEN["a"]}, "c1"), "c2")
    assert {claim: entry.ended for claim, entry in open_commands.items()} == {"a": True, "c": True}
    assert claims_of(open_commands, postponed=False) == {"a", "c"}


def test_the_end_of_the_last_command_is_worth_an_answer_of_the_planner() -> None:
    """Then the next call may wait for an hour. A call for each end would cost an action for each command."""
    waiting_entry = evolve(OPEN["a"], due=None, awaits_approval=True)
    assert only_waits({**OPEN, "b": waiting_entry}, ["a"], ["b"])
    assert not only_waits({**OPEN, "b": OPEN["a"]}, ["a"], ["b"])
    assert not only_waits({"b": waiting_entry}, [], ["b"])
    assert not only_waits(OPEN, ["a"], ["a"]), "a pass looks at a node that stayed first"
