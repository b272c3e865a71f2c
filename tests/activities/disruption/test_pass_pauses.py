"""When the next pass for moves begins: after a pause, after a change, and where the last one ended."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from math import inf
from typing import Any

import pytest

from activities.disruption import moves
from activities.disruption.disrupting import Disruptor
from tenon.apis.reasons import Reason
from tenon.disruption import pass_pauses
from tenon.disruption.commands.command_messages import to_message
from tenon.disruption.decision import Proposal
from tenon.disruption.methods.base import Method
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.rules.pool_budgets import PoolBudgets
from tenon.disruption.situation import Situation
from tenon.ec2.refusals.backoff import Backoff
from tenon.kube.offerings import OfferingKey
from tenon.messages.disruption import (
    AwaitDisruptionInput,
    LastConsidered,
    PassCursor,
)
from tests.activities.disruption.disruption_setting import managed
from tests.activities.disruption.move_setting import Scripted, Setting, command, detail, may_evict, scripted
from tests.activities.provisioning.fake_view import START, FakeTypes, node_pool


async def test_the_pause_after_a_pass_does_not_count_the_wait_for_ec2(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a start, the first pass waits for EC2's instance types. It was followed by a pause of minutes."""
    at = Setting("a")
    event = threading.Event()
    read = FakeTypes.instance_types

    def slow(self: FakeTypes, *value: Any, **names: Any) -> Any:
        assert event.wait(30)
        return read(self, *value, **names)

    monkeypatch.setattr(FakeTypes, "instance_types", slow)
    asyncio.get_running_loop().call_later(0.5, event.set)
    assert await at.run_pass() == []
    assert at.finder.due_in() <= pass_pauses.PASS_SECONDS


@pytest.fixture
def resting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pause after a round that found nothing does not end, and other pauses are over at once."""
    monkeypatch.setattr(pass_pauses, "PAUSE_FACTOR", 1e9)
    monkeypatch.setattr(pass_pauses, "BUSY_PAUSE_FACTOR", 0.0)
    monkeypatch.setattr(pass_pauses, "PASS_SECONDS", 0.0)


ONE_A_TIME = {"disruption/budgets": [{"nodes": "1"}], "disruption/consolidateAfter": "60s"}


def resting_setting(**facts: Any) -> Setting:
    """Three nodes with two pods each. The third is inside consolidateAfter. ``facts`` are those of the second."""
    at = Setting("a", "b", "c")
    at.view.pools = [node_pool(edits=ONE_A_TIME)]
    at.view.managed[1] = replace(at.view.managed[1], **facts)
    at.view.details["c"] = replace(detail("c"), quiet_since=START + timedelta(hours=1))
    at.view.requests = {name: {"cpu": 1000, "pods": 2} for name in "abc"}
    return at


def drifts(at: Setting) -> None:
    at.view.managed = [replace(node, drifted=True) for node in at.view.managed]


def loses_a_pod(at: Setting) -> None:
    at.view.requests["b"] = {"cpu": 500, "pods": 1}


def is_quiet(at: Setting) -> None:
    at.view.details["c"] = detail("c")


def loses_its_annotation(at: Setting) -> None:
    at.view.managed = [replace(node, protected_by="") for node in at.view.managed]


def comes_back(at: Setting) -> None:
    at.view.managed = [replace(node, ready=True) for node in at.view.managed]


def gets_another_policy(at: Setting) -> None:
    at.view.pools = [node_pool(edits={**ONE_A_TIME, "disruption/consolidateAfter": "45s"})]


def lets_a_pod_go(at: Setting) -> None:
    at.view.released["b"] = 1


def is_restless_and_lets_a_pod_go(at: Setting) -> None:
    at.view.released["c"] = 1


@pytest.mark.parametrize(
    ("facts", "change"),
    [
        ({}, drifts),
        ({}, lets_a_pod_go),
        ({}, loses_a_pod),
        ({}, is_quiet),
        ({"protected_by": "an annotation"}, loses_its_annotation),
        ({"ready": False}, comes_back),
        ({}, gets_another_policy),
        ({}, may_evict),
    ],
)
@pytest.mark.usefixtures("resting")
async def test_dis39_a_change_that_may_let_a_pass_find_more_ends_its_rest(
    facts: dict[str, Any], change: Callable[[Setting], None]
) -> None:
    """After a pass that found nothing, users waited up to five minutes for a cluster that had just scaled in."""
    at = resting_setting(**facts)
    assert await at.run_pass() == []
    assert at.finder.start(at.view.managed, {}) is None
    change(at)
    assert at.finder.start(at.view.managed, {}) is not None


REFUSED = OfferingKey("on-demand", "m5.large", "us-west-2a")


@pytest.mark.parametrize(("in_shortage", "looks"), [(True, True), (False, False)])
@pytest.mark.usefixtures("resting")
async def test_dis39_a_rest_ends_with_a_refusal_if_a_node_was_bought_in_the_shortage(
    in_shortage: bool, looks: bool
) -> None:
    """Its replacement may be available now. Other nodes have had theirs."""
    at = resting_setting(bought_in_shortage=in_shortage)
    at.refusals.replace_unavailable({REFUSED: Backoff(START + timedelta(hours=2))})
    assert await at.run_pass() == []
    assert at.finder.start(at.view.managed, {}) is None
    at.refusals.replace_unavailable({})
    assert (at.finder.start(at.view.managed, {}) is not None) == looks


def has_a_pod_event(at: Setting) -> None:
    at.view.details["b"] = replace(detail("b"), quiet_since=START + timedelta(hours=1))


def has_its_pod_replaced(at: Setting) -> None:
    at.view.details["b"] = replace(detail("b"), quiet_since=START + timedelta(minutes=30))


def gets_a_pod(at: Setting) -> None:
    at.view.requests["b"] = {"cpu": 1500, "pods": 3}


def begins_to_leave(at: Setting) -> None:
    at.view.managed[1] = replace(at.view.managed[1], leaving=True)


def is_protected(at: Setting) -> None:
    at.view.managed[1] = replace(at.view.managed[1], protected_by="an annotation")


def is_joined_by_another(at: Setting) -> None:
    at.view.managed = [*at.view.managed, managed("d", empty=False, initialized=False)]


@pytest.mark.parametrize(
    "change",
    [
        has_a_pod_event,
        has_its_pod_replaced,
        gets_a_pod,
        begins_to_leave,
        is_protected,
        is_joined_by_another,
        is_restless_and_lets_a_pod_go,
    ],
)
@pytest.mark.usefixtures("resting")
async def test_dis39_looks_rest_while_nothing_gives_a_move_a_new_chance(change: Callable[[Setting], None]) -> None:
    at = resting_setting()
    assert await at.run_pass() == []
    change(at)
    assert at.finder.start(at.view.managed, {}) is None


@pytest.mark.usefixtures("resting")
async def test_dis39_a_node_that_is_quiet_again_as_it_was_is_no_reason_to_look() -> None:
    """In a cluster whose pods are replaced all the time, some node always becomes consolidatable again."""
    at = resting_setting()
    assert await at.run_pass() == []
    has_a_pod_event(at)
    is_quiet(at)
    assert await at.run_pass() == []  # knows b from the pass before
    at.view.details["b"] = detail("b")
    assert at.finder.start(at.view.managed, {}) is None


@pytest.mark.parametrize("change", [may_evict, gets_another_policy])
@pytest.mark.usefixtures("resting")
async def test_dis39_a_change_for_all_nodes_counts_again_for_a_node_quiet_later(
    change: Callable[[Setting], None],
) -> None:
    """The first pass after it leaves out a node that is inside consolidateAfter."""
    at = resting_setting()
    assert await at.run_pass() == []
    has_a_pod_event(at)
    change(at)
    assert await at.run_pass() == []
    assert at.finder.start(at.view.managed, {}) is None
    at.view.details["b"] = detail("b")
    assert at.finder.start(at.view.managed, {}) is not None


@pytest.mark.usefixtures("resting")
async def test_dis39_a_pod_that_may_be_evicted_now_gives_only_its_own_node_a_new_chance() -> None:
    """Where jobs with do-not-disrupt end all the time, looks at the whole cluster never rested."""
    at = resting_setting()
    assert await at.run_pass() == []
    has_a_pod_event(at)
    lets_a_pod_go(at)
    assert at.finder.start(at.view.managed, {}) is None
    at.view.details["b"] = detail("b")
    assert at.finder.start(at.view.managed, {}) is not None


@pytest.mark.usefixtures("resting")
async def test_dis39_looks_do_not_rest_for_longer_than_five_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pass_pauses, "MAX_PAUSE", 0.0)
    at = Setting("a")
    assert await at.run_pass() == []
    assert at.finder.start(at.view.managed, {}) is not None


@pytest.mark.usefixtures("resting")
async def test_dis39_looks_do_not_rest_after_one_that_ran_out_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """It did not try every node, so there may be something to find."""
    monkeypatch.setattr(moves, "MAX_SECONDS", 0.0)
    at = resting_setting()
    assert await at.run_pass() == []
    assert at.finder.start(at.view.managed, {}) is not None


def is_due_in_five_seconds(at: Setting) -> None:
    at.view.details["c"] = replace(detail("c"), quiet_since=START + timedelta(hours=1) - timedelta(seconds=55))


async def test_wsh01_a_round_waits_for_nodes_that_are_due_in_a_moment() -> None:
    """Room on the first nodes that lost pods was filled with the pods of full nodes, and not with those of the last."""
    at = resting_setting()
    is_due_in_five_seconds(at)
    assert at.finder.start(at.view.managed, {}) is None
    assert 0.05 < at.finder.due_in() <= 5


async def test_wsh01_a_round_does_not_wait_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a busy cluster some node always becomes due in a moment."""
    monkeypatch.setattr(pass_pauses, "MAX_SETTLE", 0.0)
    at = resting_setting()
    is_due_in_five_seconds(at)
    assert at.finder.start(at.view.managed, {}) is not None


async def test_wsh01_a_node_that_drifted_does_not_wait_for_others() -> None:
    at = resting_setting()
    is_due_in_five_seconds(at)
    drifts(at)
    assert at.finder.start(at.view.managed, {}) is not None


async def test_a_pass_that_follows_a_change_waits_ten_times_the_cpu_time_of_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So looks at a cluster that changes all the time use 10 % of a core at most."""
    monkeypatch.setattr(pass_pauses, "BUSY_PAUSE_FACTOR", 1e9)
    at = Setting("a")
    assert await at.run_pass() == []
    drifts(at)
    assert at.finder.start(at.view.managed, {}) is None
    assert pass_pauses.PASS_SECONDS < at.finder.due_in() <= pass_pauses.MAX_PAUSE


@pytest.mark.usefixtures("resting")
async def test_a_pass_over_a_part_of_the_nodes_is_soon_followed_by_the_next() -> None:
    """Passes rest only after a round that found nothing, and until something changes since the round began."""
    half = PassCursor(last={"default": LastConsidered(price_per_cost=0.1, claim="a")}, more=True)
    pass_cursors: list[PassCursor | None] = []
    answers = [(half, ()), (PassCursor(), ()), (half, ()), (PassCursor(), ()), (half, (command("a"),))]

    class Turns(Scripted):
        def cause(self, node: ManagedNode, situation: Situation) -> str:
            return "a test asks for it"

        def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
            pass_cursors.append(situation.cursor)
            cursor, commands = answers[len(pass_cursors) - 1]
            return Proposal(commands, cursor=cursor)

    at = Setting("a", "b", methods=[Turns(Proposal(), Reason.UNDERUTILIZED, "multi")])
    await at.run_pass()
    await at.run_pass()
    assert at.finder.start(at.view.managed, {}) is None
    may_evict(at)
    await at.run_pass()
    may_evict(at)  # the first half of the round does not know it
    await at.run_pass()
    await at.run_pass()
    assert pass_cursors == [PassCursor(), half, PassCursor(), half, PassCursor()]
    assert at.finder.start(at.view.managed, {}) is not None


class Broken(Scripted):
    def cause(self, node: ManagedNode, situation: Situation) -> str:
        return "a test asks for it"

    def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
        raise RuntimeError("the engine failed")


async def test_a_pass_that_fails_goes_on_where_the_last_one_ended() -> None:
    """The next pass began with the first nodes again, so those after a node that the engine fails on had no turn."""
    half = PassCursor(last={"default": LastConsidered(price_per_cost=0.1, claim="a")}, more=True)
    at = Setting("a", "b", methods=[Broken(Proposal(), Reason.UNDERUTILIZED, "multi")])
    at.finder.resume(half)
    assert await at.run_pass() == []
    assert at.finder.cursor == half


@pytest.mark.usefixtures("resting")
async def test_dis39_looks_do_not_rest_after_one_that_left_candidates_for_the_next() -> None:
    """Drift has only a share of the time, so it may leave some although the pass was not over."""
    at = Setting("a", methods=[scripted(reason=Reason.DRIFTED, kind="", is_cut=True)])
    assert await at.run_pass() == []
    assert at.finder.start(at.view.managed, {}) is not None


async def test_the_pause_after_a_pass_does_not_count_validations(monkeypatch: pytest.MonkeyPatch) -> None:
    """They use the CPU for commands that an earlier pass found."""
    validated = threading.Event()
    used = threading.local()

    def thread_time() -> float:
        """Whatever is measured uses a second."""
        used.seconds = getattr(used, "seconds", 0.0) + 1.0
        return float(used.seconds)

    class Waiting(Scripted):
        def cause(self, node: ManagedNode, situation: Situation) -> str:
            return "a test asks for it"

        def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
            assert validated.wait(30)
            return self._proposal

    monkeypatch.setattr(time, "thread_time", thread_time)
    monkeypatch.setattr(pass_pauses, "BUSY_PAUSE_FACTOR", 1e6)
    monkeypatch.setattr(pass_pauses, "MAX_PAUSE", inf)
    pauses = []
    for validations in (0, 2):
        at = Setting("a", methods=[Waiting(Proposal(), Reason.UNDERUTILIZED, "multi")])
        validated.clear()
        look = at.finder.start(at.view.managed, {})
        assert look is not None
        for _ in range(validations):
            await at.validator.validate(to_message(command("a")), {})
        validated.set()
        await look
        at.finder.take(at.situation())
        pauses.append(at.finder.due_in())
    assert pauses[0] > 1e6
    assert pauses == [pytest.approx(pauses[0], rel=0.01)] * 2


async def test_the_workflow_keeps_where_the_next_pass_goes_on() -> None:
    """So that the next leader goes on there."""
    half = PassCursor(last={"default": LastConsidered(price_per_cost=0.1, claim="a")}, more=True)

    def leader(*methods: Method) -> tuple[Setting, Disruptor]:
        at = Setting("a", "b", methods=methods)
        return at, Disruptor(at.view, lambda: START + timedelta(hours=1), moves=at.finder)

    at, disruptor = leader(scripted(cursor=half))
    disruption_decision = await disruptor.await_candidates(AwaitDisruptionInput(cluster="c"))
    assert (disruption_decision.cursor, disruption_decision.commands) == (half, [])
    at.view.wait_complete = False  # the next call ends without a pass
    disruption_decision = await disruptor.await_candidates(
        AwaitDisruptionInput(cluster="c", cursor=half, wait_seconds=0.05)
    )
    assert disruption_decision.cursor is None

    pass_cursors: list[PassCursor | None] = []

    class Watching(Scripted):
        def cause(self, node: ManagedNode, situation: Situation) -> str:
            return "a test asks for it"

        def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
            pass_cursors.append(situation.cursor)
            return Proposal(cursor=PassCursor())

    at, disruptor = leader(Watching(Proposal(), Reason.UNDERUTILIZED, "multi"))
    disruption_decision = await disruptor.await_candidates(AwaitDisruptionInput(cluster="c", cursor=half))
    assert (pass_cursors, disruption_decision.cursor) == ([half], PassCursor())


async def test_no_pass_runs_while_no_node_is_quiet_for_long_enough() -> None:
    """A pass costs much more than the question when the next node may be a candidate."""
    at = Setting("a", "b")
    at.view.pools = [node_pool(edits={"disruption/consolidateAfter": "90s"})]
    soon = START + timedelta(hours=1) - timedelta(seconds=86)
    at.view.details = {name: replace(detail(name), quiet_since=soon) for name in ("a", "b")}
    assert at.finder.start(at.view.managed, {}) is None
    assert 3.0 < at.finder.due_in() <= 4.0

    at = Setting("a", "b")
    at.view.pools = [node_pool(edits={"disruption/consolidateAfter": "80s"})]
    at.view.details = {"a": replace(detail("a"), quiet_since=soon), "b": detail("b")}
    assert at.finder.start(at.view.managed, {}) is not None
