"""What keeps nodes that their own objects do not say."""

from __future__ import annotations

import pytest

from tenon.fleet.disruption_state import DisruptionState
from tenon.fleet.summary import CommandSummary, FrozenPools
from tenon.fleet.waiting import with_waits
from tests.tenon.fleet.cluster import NOW, a_row

ASKS = CommandSummary("c1", "Underutilized", ["n"], [], 0.1, started=NOW, awaits_approval=True)
FROZEN = FrozenPools(["web"], "pause", "ann", "INC-1", None, "by DisruptionFreeze pause until it is deleted")


@pytest.mark.parametrize("state", ["may move", "resting", "drifted", "blocked", "never", "in use"])
def test_a_node_whose_removal_waits_for_approval_says_so_with_the_command(state: str) -> None:
    (row, other) = with_waits([a_row("n", disruption=DisruptionState(state)), a_row("other")], [ASKS], ())
    assert row.disruption == "to approve"
    assert row.why == "its removal as underutilized waits for approval since 2026-01-02 00:00:00 UTC: tenon approve c1"
    assert other == a_row("other")


def test_nodes_of_a_frozen_nodepool_say_by_what() -> None:
    free = a_row("a", pool="web", disruption=DisruptionState.CONSOLIDATABLE)
    drifted = a_row("b", pool="web", disruption=DisruptionState.DRIFTED, why="AMIDrift")
    first, second = with_waits([free, drifted], [], [FROZEN])
    assert (first.disruption, first.why) == ("frozen", f"NodePool web is {FROZEN.clause}")
    assert second.why == f"NodePool web is {FROZEN.clause}; drifted: AMIDrift"
    assert with_waits([a_row("n", pool="batch")], [], [FROZEN]) == [a_row("n", pool="batch")]


@pytest.mark.parametrize("state", ["leaving", "in command", "starting", "protected", "expiring", "unmanaged"])
def test_what_is_more_important_stays(state: str) -> None:
    row = a_row("n", pool="web", disruption=DisruptionState(state), why="x")
    assert with_waits([row], [ASKS], [FROZEN]) == [row]


def test_a_command_that_was_approved_is_no_question() -> None:
    going = CommandSummary("c1", "Underutilized", ["n"], [], 0.1, started=NOW)
    assert with_waits([a_row("n")], [going], ()) == [a_row("n")]
