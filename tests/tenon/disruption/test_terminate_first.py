"""Which nodes leave before their replacements start, in cases that no scenario can state."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tenon.apis.reasons import Reason
from tenon.disruption.commands.awaited_replacements import (
    CHECK_AGAIN,
    GIVEN_UP_AFTER,
    LISTED_FOR,
    LONGEST_PAUSE,
    ReplacementOutcome,
    judge,
    pause_before,
    why_first,
)
from tenon.disruption.commands.command_messages import to_message
from tenon.disruption.commands.open_commands import (
    awaiting_replacement,
    claims_of,
    claims_of_finished_commands,
    still_awaiting,
)
from tenon.disruption.deciding import decide
from tenon.disruption.decision import Command
from tenon.disruption.methods.drift import Drift, StaticDrift
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.rules.pool_budgets import gone_first
from tenon.disruption.search.rescheduling import after_commands
from tenon.disruption.search.terminate_first import full_reservations
from tenon.disruption.situation import Situation
from tenon.evolve import evolve
from tenon.messages.awaited_replacements import AwaitedReplacement, FoundReplacements
from tenon.messages.disruption import (
    AwaitedReport,
    DisruptionCommand,
    DisruptResult,
    OpenCommand,
)
from tenon.scheduling.model import Pool
from tenon.scheduling.reservations import places_left
from tests.tenon.disruption.clusters import Cluster, NodeSpec, PodSpec, PoolSpec, ReservationSpec, situation

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
RESERVED_NODE = NodeSpec(reservation="cr-1", drifted="AMIDrift", pods=[PodSpec(cpu="1500m", count=2)])


def full(**pool: object) -> Situation:
    """One drifted node in a full reservation."""
    spec = PoolSpec.model_validate({"capacity_types": ["reserved"], **pool})
    return situation(
        Cluster(pools={"default": spec}, nodes={"a": RESERVED_NODE}, reservations={"cr-1": ReservationSpec()})
    )


def the_command(cluster_situation: Situation) -> Command:
    (command,) = decide(cluster_situation, [StaticDrift(terminate_first=True), Drift(terminate_first=True)]).commands
    return command


def message(**changes: object) -> DisruptionCommand:
    cluster_situation = full()
    assert cluster_situation.model is not None
    return evolve(to_message(the_command(cluster_situation), details=cluster_situation.model.details), **changes)


def test_n15_192_the_message_records_what_is_intended_before_the_node_leaves() -> None:
    command = message()
    assert command.terminate_first is not None
    (intended,) = command.terminate_first.intended
    assert (command.terminate_first.reason, command.replacements) == ("no-reserved-capacity", [])
    assert (intended.pool, intended.reservation, sum(intended.workloads.values())) == ("default", "cr-1", 2)
    assert why_first(command.terminate_first).endswith("because capacity reservation cr-1 is full")


def test_n15_247_what_follows_a_command_of_the_pass_gets_neither_place_twice() -> None:
    cluster_situation = full()
    assert cluster_situation.model is not None
    command = the_command(cluster_situation)
    assert command.freed_places == {"cr-1": 1}
    (pool,) = after_commands(cluster_situation.model, [command]).problem.pools
    offerings = [offering for kind in pool.instance_types for offering in kind.offerings if offering.reservation_id]
    assert [places_left(pool, offering) for offering in offerings] == [0]


def test_n15_198_a_node_with_pods_that_must_surge_does_not_leave_first() -> None:
    cluster_situation = full()
    assert cluster_situation.model is not None
    details = {"a": replace(cluster_situation.model.details["a"], surges=("shop/db",))}
    decision = decide(
        replace(cluster_situation, model=replace(cluster_situation.model, details=details)),
        [Drift(terminate_first=True)],
    )
    assert decision.commands == ()
    assert "Deployment shop/db asks to start its new pod first" in decision.blocked["a"].why


@pytest.mark.parametrize(("on_demand", "expected"), [(None, frozenset({"cr-1"})), (True, None), (False, None)])
def test_n15_195_one_compatible_offering_outside_reservations_is_enough_even_if_it_is_unavailable(
    on_demand: bool | None, expected: frozenset[str] | None
) -> None:
    """``on_demand``: whether its on-demand offerings are available; None if the pool may not use them."""
    types = ["reserved", "on-demand"] if on_demand is not None else ["reserved"]
    cluster_situation = full(capacity_types=types, replicas=1)
    assert cluster_situation.model is not None
    pool = cluster_situation.model.static_pools["default"]
    assert full_reservations(_with_on_demand(pool, available=bool(on_demand))) == expected


def _with_on_demand(pool: Pool, *, available: bool) -> Pool:
    kinds = [
        replace(
            kind,
            offerings=tuple(
                offering if offering.reservation_id else replace(offering, available=available and offering.available)
                for offering in kind.offerings
            ),
        )
        for kind in pool.instance_types
    ]
    return replace(pool, instance_types=kinds)


def test_n15_195_a_place_that_an_earlier_command_of_the_pass_took_is_not_free() -> None:
    cluster_situation = full(replicas=1)
    assert cluster_situation.model is not None
    pool = cluster_situation.model.static_pools["default"]
    usage = {"capacity-reservation/cr-1": -1}
    assert full_reservations(replace(pool, usage=usage)) is None
    assert full_reservations(replace(pool, usage={"capacity-reservation/cr-1": 0})) == frozenset({"cr-1"})


# --- the wait for the replacement ---

AWAITED = AwaitedReplacement(since=NOW, result=DisruptResult(accepted=["a"]))
GONE = evolve(AWAITED, gone_at=NOW)


def test_n15_191_a_command_waits_while_its_node_still_leaves() -> None:
    replacements = FoundReplacements(leaving=["a"], waiting_pods=1)
    wait = judge(message(), AWAITED, replacements, NOW + 10 * GIVEN_UP_AFTER)
    assert (wait.outcome, wait.text) == (None, "NodeClaim a is still leaving; 1 pod waits for a node")


def test_n15_191_a_command_ends_when_its_replacement_runs() -> None:
    replacements = FoundReplacements(running=["b"])
    wait = judge(message(), GONE, replacements, NOW + timedelta(seconds=94))
    assert (wait.outcome, wait.text) == (ReplacementOutcome.REPLACED, "NodeClaim b replaced it 1m34s after it was gone")


def test_n15_191_a_command_says_what_its_replacement_waits_for() -> None:
    starts = FoundReplacements(starting={"b": "waits for its Node"}, waiting_pods=2)
    assert judge(message(), GONE, starts, NOW).text == (
        "waits for replacement b, which waits for its Node; 2 pods wait for a node"
    )
    assert judge(message(), GONE, FoundReplacements(waiting_pods=1), NOW).text == (
        "waits for a node of NodePool default in capacity reservation cr-1; 1 pod waits for a node"
    )


@pytest.mark.parametrize(
    ("idle_for", "replacements", "expected"),
    [
        (CHECK_AGAIN, FoundReplacements(), ReplacementOutcome.UNNEEDED),
        (timedelta(), FoundReplacements(), None),
        (CHECK_AGAIN, FoundReplacements(waiting_pods=1), None),
        (CHECK_AGAIN, FoundReplacements(starting={"b": "boots"}), None),
    ],
    ids=["twice", "once", "a pod waits", "a node starts"],
)
def test_n15_191_a_replacement_that_no_pod_needs_is_not_awaited(
    idle_for: timedelta, replacements: FoundReplacements, expected: ReplacementOutcome | None
) -> None:
    """One check may come before a ReplicaSet has made the new pod."""
    assert judge(message(), evolve(GONE, idle_since=NOW), replacements, NOW + idle_for).outcome is expected


def test_n15_191_a_static_pool_gets_its_replacement_whether_or_not_pods_wait() -> None:
    cluster_situation = full(replicas=1, limits={"nodes": "1"})
    static = to_message(the_command(cluster_situation))
    awaited = evolve(GONE, idle_since=NOW)
    assert judge(static, awaited, FoundReplacements(), NOW + 2 * CHECK_AGAIN).outcome is None


def test_n15_191_a_replacement_that_never_comes_is_given_up() -> None:
    replacements = FoundReplacements(waiting_pods=2)
    assert judge(message(), GONE, replacements, NOW + GIVEN_UP_AFTER - timedelta(seconds=1)).outcome is None
    wait = judge(message(), GONE, replacements, NOW + GIVEN_UP_AFTER)
    assert wait.outcome is ReplacementOutcome.GIVEN_UP
    assert wait.text == (
        "no replacement ran within 30m: expected a node of NodePool default in capacity reservation cr-1"
    )


def test_n15_199_a_command_looks_less_and_less_often_at_a_node_that_drains_for_days() -> None:
    pauses = [pause_before(evolve(AWAITED, checks=number), NOW) for number in range(20)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (CHECK_AGAIN, LONGEST_PAUSE)


def test_n15_191_a_command_looks_often_for_a_replacement_that_boots_and_rarely_for_one_that_does_not_come() -> None:
    passed, checks = timedelta(), 0
    while passed < GIVEN_UP_AFTER:
        pause = pause_before(GONE, NOW + passed)
        assert pause == CHECK_AGAIN if passed <= timedelta(minutes=2) else pause <= passed / 8
        passed, checks = passed + pause, checks + 1
    assert checks <= 32


# --- the list of open commands ---

OPEN = OpenCommand(
    command="drifted-1",
    reason=Reason.DRIFTED,
    pool="default",
    until=NOW + LISTED_FOR,
    since=NOW,
    hosts=["h"],
    awaits_replacement=True,
)
LEAVES = ManagedNode("a", "u", "default", True, True, True, False, None)
STAYS = replace(LEAVES, leaving=False)


@pytest.mark.parametrize(
    ("nodes", "entry", "over"),
    [
        ([], OPEN, []),
        ([], evolve(OPEN, awaits_replacement=False), ["a"]),
        ([], evolve(OPEN, postponed=True, due=NOW), ["a"]),
        ([LEAVES], OPEN, []),
        ([STAYS], OPEN, ["a"]),
    ],
    ids=["gone first", "gone", "undone", "leaving", "terminated command"],
)
def test_n15_198_a_node_that_left_first_stays_listed_until_its_command_says_otherwise(
    nodes: list[ManagedNode], entry: OpenCommand, over: list[str]
) -> None:
    """A command that an operator terminated before it marked its node is over."""
    assert claims_of_finished_commands({"a": entry}, nodes, NOW + timedelta(minutes=5)) == over


def test_n15_198_only_commands_that_were_not_undone_await_a_replacement() -> None:
    listed = {"a": OPEN, "b": evolve(OPEN, postponed=True), "c": evolve(OPEN, awaits_replacement=False)}
    assert awaiting_replacement(listed) == {"a": "default"}
    assert claims_of(listed, postponed=False) == {"a", "c"}


def test_n15_198_a_report_of_a_command_restores_what_a_new_disruption_workflow_forgot() -> None:
    report = AwaitedReport(
        command="drifted-1", reason="Drifted", pools={"a": "default"}, seconds=60, candidates_gone=True
    )
    for listed_before in ({}, {"a": OPEN}, {"a": evolve(OPEN, command="another")}):
        entry = still_awaiting(listed_before, report, NOW)["a"]
        assert (entry.command, entry.until, entry.hosts) == ("drifted-1", NOW + timedelta(minutes=1), [])
        assert awaiting_replacement({"a": entry}) == {"a": "default"}


def test_n15_198_a_node_whose_instance_is_being_terminated_counts_as_gone() -> None:
    cluster_situation = replace(full(), awaiting_replacement={"a": "default"})
    assert gone_first(cluster_situation) == {}
    ending = replace(cluster_situation.nodes[0], leaving=True, terminating=True)
    assert gone_first(replace(cluster_situation, nodes=[ending])) == {"a": "default"}
