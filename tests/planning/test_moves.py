"""Looking for commands that move pods, and validating them: what metrics and events say of it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from math import inf
from typing import Any

import pytest
from prometheus_client import REGISTRY
from temporalio.exceptions import ApplicationError

from activities.planning import moves
from activities.planning.batching import Batcher
from activities.planning.decision_metrics import MAX_SCORE
from activities.planning.disrupting import Disruptor
from activities.planning.launch_refusals import LaunchRefusals
from activities.planning.move_events import TASK
from activities.planning.moves import MoveFinder, methods_within
from activities.planning.slowed_pools import SlowedPools
from activities.planning.solving import Limit
from tenon.apis.reasons import Reason
from tenon.disruption.commands import to_message
from tenon.disruption.deciding import decide
from tenon.disruption.methods.base import Method
from tenon.disruption.model import (
    Candidate,
    ClusterModel,
    Command,
    ManagedNode,
    NodeDetail,
    Proposal,
    Situation,
    Verdict,
    policy_of,
)
from tenon.disruption.pool_budgets import PoolBudgets
from tenon.disruption.rescheduling import Rescheduler
from tenon.disruption.strays import with_strays
from tenon.kube.offerings import OfferingKey
from tenon.lifecycle.breaker import refused
from tenon.lifecycle.messages.disruption import (
    AwaitDisruptionInput,
    DisruptionCommand,
    LastLooked,
    LedgerEntry,
    LookCursor,
    MeasuredSaving,
    PoolSavings,
    Replacement,
)
from tenon.scheduling.model import Plan
from tests.disruption.clusters import Cluster, NodeSpec, PodSpec, situation
from tests.lifecycle_k8s.fake_kube import Recorder
from tests.planning.disruption_setting import managed
from tests.planning.fake_view import START, FakeTypes, FakeView, node_pool
from tests.scheduling.builders import CATALOG

PREFIX = "karpenter_voluntary_disruption_"


def counted(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


class Scripted:
    """A method that gives one answer."""

    name = "scripted"

    def __init__(self, proposal: Proposal, reason: Reason, consolidation_type: str) -> None:
        self.reason = reason
        self.consolidation_type = consolidation_type
        self._proposal = proposal

    def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
        return self._proposal


def command(*names: str, reason: Reason = Reason.UNDERUTILIZED, kind: str = "multi", **fields: Any) -> Command:
    """A command that deletes these nodes."""
    nodes = tuple(Candidate(managed(name, empty=False), since=START, leaves_at=START) for name in names)
    return Command("scripted", reason, kind, nodes, moves_pods=True, **fields)


def detail(name: str) -> NodeDetail:
    return NodeDetail(name, "m5.large", "us-west-2a", "on-demand", 0.1, (), 1.0, quiet_since=START)


class Setting:
    """A cluster with these nodes, and a finder with scripted methods."""

    def __init__(self, *names: str, methods: Sequence[Method] = ()) -> None:
        self.view = FakeView()
        self.view.pools = [node_pool(edits={"disruption/budgets": [{"nodes": "100%"}]})]
        self.view.managed = [managed(name, empty=False) for name in names]
        self.view.details = {name: detail(name) for name in names}
        self.recorder = Recorder()
        self.refusals = LaunchRefusals(now=lambda: START + timedelta(hours=1))
        self.slowed = SlowedPools()
        self.freed: list[threading.Thread] = []
        """The threads in which memory was freed."""
        self.finder = MoveFinder(
            self.view,
            FakeTypes(),
            Batcher(self.view, lambda: START),
            self.recorder,
            lambda _: methods,
            refusals=self.refusals,
            slowed=self.slowed,
            now=lambda: START + timedelta(hours=1),
            free_memory=lambda: self.freed.append(threading.current_thread()),
        )

    async def look(self) -> list[DisruptionCommand]:
        look = self.finder.start(self.view.managed, {})
        assert look is not None
        await look
        return self.finder.take(self.situation())

    def situation(self, *, under_command: Sequence[str] = ()) -> Situation:
        """The nodes as they are now."""
        policies = {pool.metadata.name: policy_of(pool) for pool in self.view.pools}
        return Situation(self.view.managed, policies, START, under_command=frozenset(under_command))


def scripted(*commands: Command, reason: Reason = Reason.UNDERUTILIZED, kind: str = "multi", **told: Any) -> Scripted:
    return Scripted(Proposal(commands, **told), reason, kind)


async def test_met29_met30_met31_a_look_times_its_methods_and_counts_its_decisions() -> None:
    kind: Mapping[str, str] = {"reason": "underutilized", "consolidation_type": "multi"}
    delete = {"decision": "delete", **kind}

    def counts() -> list[float]:
        return [
            counted(f"{PREFIX}decisions_total", **delete),
            counted(f"{PREFIX}decisions_by_nodepool_total", nodepool="default", **delete),
            counted(f"{PREFIX}decision_evaluation_duration_seconds_count", **kind),
        ]

    before = counts()
    at = Setting("a", "b", methods=[scripted(command("a", "b"))])
    assert [len(one.candidates) for one in await at.look()] == [2]
    assert [now - then for now, then in zip(counts(), before, strict=True)] == [1, 1, 1]


async def test_a_look_frees_its_memory_outside_the_event_loop_even_if_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    at = Setting("a", methods=[scripted()])
    await at.look()
    assert len(at.freed) == 1

    def broken() -> None:
        raise RuntimeError("no snapshot")

    failing = Setting("a", methods=[scripted()])
    monkeypatch.setattr(failing.view, "snapshot", broken)
    with pytest.raises(RuntimeError):
        await failing.look()
    assert len(failing.freed) == 1
    assert threading.main_thread() not in {*at.freed, *failing.freed}


@pytest.mark.parametrize(("seconds", "timeouts"), [(60.0, 0), (0.0, 1)])
async def test_met33_consolidation_that_reaches_its_time_limit_is_counted(
    seconds: float, timeouts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def counts() -> list[float]:
        name = f"{PREFIX}consolidation_timeouts_total"
        return [counted(name, consolidation_type=kind) for kind in ("multi", "")]

    before = counts()
    monkeypatch.setattr(moves, "MAX_SECONDS", seconds)
    at = Setting("a", methods=[scripted(), scripted(reason=Reason.DRIFTED, kind="")])
    await at.look()
    assert [now - then for now, then in zip(counts(), before, strict=True)] == [timeouts, 0]


@pytest.mark.parametrize(
    ("reason", "kind", "events"),
    [(Reason.UNDERUTILIZED, "multi", [("NodeClaim", "a", "ConsolidationRejected")]), (Reason.DRIFTED, "", [])],
)
async def test_dis46_met33_evt02_a_failed_validation_is_counted_and_told(
    reason: Reason, kind: str, events: list[tuple[str, str, str]]
) -> None:
    name = f"{PREFIX}failed_validations_total"
    before = counted(name, consolidation_type=kind)
    at = Setting("b")
    why = await at.finder.validate(to_message(command("a", reason=reason, kind=kind)), {})
    assert why == "NodeClaim a may not be disrupted any more"
    assert counted(name, consolidation_type=kind) == before + 1
    assert [event[:3] for event in at.recorder.events] == events
    assert all(event[3] == why for event in at.recorder.events)


async def test_dis46_a_node_that_another_command_took_meanwhile_is_not_validated() -> None:
    at = Setting("a")
    given = to_message(command("a"))
    entry = LedgerEntry(command=given.id, reason=given.reason, pool="default", until=START)
    other = entry.model_copy(update={"command": "another"})
    assert await at.finder.validate(given, {"a": other}) == "NodeClaim a may not be disrupted any more"
    assert await at.finder.validate(given, {"a": entry}) != "NodeClaim a may not be disrupted any more"


async def test_dis46_the_validation_of_a_new_command_knows_that_the_nodes_last_command_is_over() -> None:
    """It comes before the workflow reports its ledger again. The node of a terminated command stayed 5 minutes more."""
    at = Setting("a", "b", methods=[scripted(command("a"), command("b"))])
    disruptor = Disruptor(at.view, lambda: START + timedelta(hours=1), moves=at.finder)
    dead = LedgerEntry(command="dead", reason="Underutilized", pool="default", until=START, since=START)
    found = await disruptor.await_candidates(AwaitDisruptionInput(cluster="c", ledger={"a": dead}))
    assert (found.gone, [one.candidates[0].claim for one in found.moves]) == (["a"], ["a", "b"])
    taken = "NodeClaim a may not be disrupted any more"
    assert (await disruptor.validate(found.moves[0])).failure != taken
    assert (await disruptor.validate(to_message(command("a"), ident="another"))).failure == taken


async def test_dis46_a_validation_waits_for_the_cache_of_a_worker_that_just_started() -> None:
    """A command that waits while its worker is replaced must not end because the new one has read nothing yet."""
    at = Setting("a")
    at.view.wait_complete = False
    with pytest.raises(ApplicationError, match="not synced yet"):
        await at.finder.validate(to_message(command("a")), {})


async def test_dis46_a_look_counts_what_started_while_it_ran() -> None:
    at = Setting("a", "b", methods=[scripted(command("a"), command("b"))])
    look = at.finder.start(at.view.managed, {})
    assert look is not None
    await look
    at.view.pools = [node_pool(edits={"disruption/budgets": [{"nodes": "1"}]})]
    assert at.finder.take(at.situation(under_command=["b"])) == []


async def test_dis62_a_look_leaves_nodes_that_an_open_command_moves_pods_to() -> None:
    seen: list[Sequence[str]] = []

    class Watching(Scripted):
        def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
            seen.append([node.claim for node in eligible])
            return Proposal()

    at = Setting("a", "b", "c", methods=[Watching(Proposal(), Reason.UNDERUTILIZED, "multi")])
    entry = LedgerEntry(command="c1", reason="Drifted", pool="default", until=START, since=START, hosts=["b"])
    look = at.finder.start(at.view.managed, {"c": entry})
    assert look is not None
    await look
    assert seen == [["a"]]


async def test_a_look_knows_what_ec2_refuses() -> None:
    """A move must depend neither on an offering nor on a NodePool that EC2 refused a moment ago."""
    seen: list[Situation] = []

    class Watching(Scripted):
        def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
            seen.append(situation)
            return Proposal()

    async def model(at: Setting) -> ClusterModel:
        await at.look()
        found = seen.pop().model
        assert found is not None
        return found

    watching = Watching(Proposal(), Reason.UNDERUTILIZED, "multi")
    first = CATALOG[0].name
    at = Setting("a", methods=[watching])
    at.refusals.avoid({OfferingKey("on-demand", first, "us-west-2a"): START + timedelta(hours=2)})
    (pool,) = (await model(at)).problem.pools
    assert first not in {kind.name for kind in pool.instance_types}
    assert pool.limits != {"nodes": 0}

    at = Setting("a", methods=[watching])
    at.refusals.update([refused(None, "default", "Unauthorized", "you may not", START + timedelta(minutes=59))])
    assert [pool.limits for pool in (await model(at)).problem.pools] == [{"nodes": 0}]


MEASURED = "Command x saves $0.1000 an hour; $0.1600 was predicted"


@pytest.mark.parametrize(
    ("reason", "events"),
    [
        (
            Reason.UNDERUTILIZED,
            [
                (
                    "NodePool",
                    "default",
                    "ConsolidationMeasured",
                    MEASURED,
                )
            ],
        ),
        (Reason.DRIFTED, []),
    ],
)
async def test_wsh02_a_command_is_measured_at_the_prices_of_the_offerings_that_were_launched(
    reason: Reason, events: list[tuple[str, str, str, str]]
) -> None:
    at = Setting("a", "b", "new")
    replacements = [Replacement(name="new", pool="default", body={})]
    given = to_message(
        command("a", "b", reason=reason, expected=0.16),
        ident="x",
        replacements=replacements,
        prices={"a": 0.1, "b": 0.1},
    )
    expected = {"default": MeasuredSaving(predicted=0.16, reached=0.1)}
    assert await at.finder.measure(given, ["a", "b"]) == expected
    assert at.recorder.events == events
    del at.view.details["new"]
    assert await at.finder.measure(given, ["a", "b"]) == {}
    assert at.recorder.events == events
    at.view.wait_complete = False
    with pytest.raises(ApplicationError, match="not synced yet"):
        await at.finder.measure(given, ["a", "b"])


async def test_wsh01_a_look_knows_which_pools_the_workflow_says_are_slowed_down() -> None:
    seen: list[Mapping[str, str]] = []

    class Watching(Scripted):
        def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
            seen.append(situation.slowed)
            return Proposal()

    at = Setting("a", methods=[Watching(Proposal(), Reason.UNDERUTILIZED, "multi")])
    poor = PoolSavings(short=2, predicted=0.2, reached=0.01, at=START + timedelta(minutes=59))
    disruptor = Disruptor(at.view, lambda: START + timedelta(hours=1), slowed=at.slowed)
    given = AwaitDisruptionInput(cluster="c", savings={"default": poor}, wait_seconds=0.01)
    await disruptor.await_candidates(given)
    await at.look()
    assert "saved $0.0100 an hour instead of $0.2000" in seen[0]["default"]


async def events_of(at: Setting) -> list[tuple[str, str, str, str]]:
    """The events of a look."""
    await at.look()
    await asyncio.gather(*(task for task in asyncio.all_tasks() if task.get_name() == TASK))
    return at.recorder.events


async def test_evt02_a_node_that_consolidation_leaves_says_why() -> None:
    at = Setting("a", "b", methods=[scripted(unconsolidatable={"a": "the price is unknown", "gone": "it is gone"})])
    assert await events_of(at) == [("NodeClaim", "a", "Unconsolidatable", "The price is unknown")]


async def test_evt02_a_move_that_balanced_approved_says_its_score() -> None:
    told = (
        Verdict("default", ("a",), 0.8, approved=True),
        Verdict("default", ("a", "b"), 2.0, approved=True),
        Verdict("default", ("b",), 0.2, approved=False),
    )
    assert await events_of(Setting("a", "b", methods=[scripted(verdicts=told)])) == [
        ("NodeClaim", "a", "ConsolidationApproved", "score 0.80 >= threshold 0.50"),
        ("NodePool", "default", "ConsolidationApproved", "score 2.00 >= threshold 0.50"),
    ]


async def test_met35_met36_moves_and_their_scores_are_counted() -> None:
    def counts() -> list[float]:
        found = []
        for decision, policy in (
            ("approved", "WhenEmptyOrUnderutilized"),
            ("approved", "Balanced"),
            ("rejected", "Balanced"),
        ):
            labels = {"decision": decision, "nodepool": "default", "policy": policy}
            found += [counted(f"karpenter_consolidation_{name}", **labels) for name in ("moves_total", "score_sum")]
        return found

    before = counts()
    told = (Verdict("default", ("a",), inf, approved=True), Verdict("default", ("b",), 0.25, approved=False))
    await Setting("a", "b", methods=[scripted(command("a"), verdicts=told)]).look()
    assert [now - then for now, then in zip(counts(), before, strict=True)] == [1, 0, 0, MAX_SCORE, 1, 0.25]


async def test_the_pause_after_a_look_does_not_count_the_wait_for_ec2(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a start, the first look waits for EC2's instance types. It was followed by a pause of minutes."""
    at = Setting("a")
    answered = threading.Event()
    read = FakeTypes.instance_types

    def slow(self: FakeTypes, *given: Any, **named: Any) -> Any:
        assert answered.wait(30)
        return read(self, *given, **named)

    monkeypatch.setattr(FakeTypes, "instance_types", slow)
    asyncio.get_running_loop().call_later(0.5, answered.set)
    assert await at.look() == []
    assert at.finder.due_in() <= moves.LOOK_SECONDS


@pytest.fixture
def resting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pause after a round that found nothing does not end, and other pauses are over at once."""
    monkeypatch.setattr(moves, "PAUSE_FACTOR", 1e9)
    monkeypatch.setattr(moves, "BUSY_PAUSE_FACTOR", 0.0)
    monkeypatch.setattr(moves, "LOOK_SECONDS", 0.0)


ONE_A_TIME = {"disruption/budgets": [{"nodes": "1"}], "disruption/consolidateAfter": "30s"}


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
    at.view.managed = [replace(node, protected=False) for node in at.view.managed]


def comes_back(at: Setting) -> None:
    at.view.managed = [replace(node, ready=True) for node in at.view.managed]


def gets_another_policy(at: Setting) -> None:
    at.view.pools = [node_pool(edits={**ONE_A_TIME, "disruption/consolidateAfter": "1s"})]


def may_evict(at: Setting) -> None:
    at.view.eased += 1


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
        ({"protected": True}, loses_its_annotation),
        ({"ready": False}, comes_back),
        ({}, gets_another_policy),
        ({}, may_evict),
    ],
)
@pytest.mark.usefixtures("resting")
async def test_dis39_a_change_that_may_let_a_look_find_more_ends_its_rest(
    facts: dict[str, Any], change: Callable[[Setting], None]
) -> None:
    """After a look that found nothing, users waited up to five minutes for a cluster that had just scaled in."""
    at = resting_setting(**facts)
    assert await at.look() == []
    assert at.finder.start(at.view.managed, {}) is None
    change(at)
    assert at.finder.start(at.view.managed, {}) is not None


def has_a_pod_event(at: Setting) -> None:
    at.view.details["b"] = replace(detail("b"), quiet_since=START + timedelta(hours=1))


def has_its_pod_replaced(at: Setting) -> None:
    at.view.details["b"] = replace(detail("b"), quiet_since=START + timedelta(minutes=30))


def gets_a_pod(at: Setting) -> None:
    at.view.requests["b"] = {"cpu": 1500, "pods": 3}


def begins_to_leave(at: Setting) -> None:
    at.view.managed[1] = replace(at.view.managed[1], leaving=True)


def is_protected(at: Setting) -> None:
    at.view.managed[1] = replace(at.view.managed[1], protected=True)


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
    assert await at.look() == []
    change(at)
    assert at.finder.start(at.view.managed, {}) is None


@pytest.mark.usefixtures("resting")
async def test_dis39_a_node_that_is_quiet_again_as_it_was_is_no_reason_to_look() -> None:
    """In a cluster whose pods are replaced all the time, some node always becomes consolidatable again."""
    at = resting_setting()
    assert await at.look() == []
    has_a_pod_event(at)
    is_quiet(at)
    assert await at.look() == []  # knows b from the look before
    at.view.details["b"] = detail("b")
    assert at.finder.start(at.view.managed, {}) is None


@pytest.mark.parametrize("change", [may_evict, gets_another_policy])
@pytest.mark.usefixtures("resting")
async def test_dis39_what_changed_for_all_nodes_counts_again_for_a_node_that_is_quiet_later(
    change: Callable[[Setting], None],
) -> None:
    """The first look after it leaves out a node that is inside consolidateAfter."""
    at = resting_setting()
    assert await at.look() == []
    has_a_pod_event(at)
    change(at)
    assert await at.look() == []
    assert at.finder.start(at.view.managed, {}) is None
    at.view.details["b"] = detail("b")
    assert at.finder.start(at.view.managed, {}) is not None


@pytest.mark.usefixtures("resting")
async def test_dis39_a_pod_that_may_be_evicted_now_gives_only_its_own_node_a_new_chance() -> None:
    """Where jobs with do-not-disrupt end all the time, looks at the whole cluster never rested."""
    at = resting_setting()
    assert await at.look() == []
    has_a_pod_event(at)
    lets_a_pod_go(at)
    assert at.finder.start(at.view.managed, {}) is None
    at.view.details["b"] = detail("b")
    assert at.finder.start(at.view.managed, {}) is not None


@pytest.mark.usefixtures("resting")
async def test_dis39_looks_do_not_rest_for_longer_than_five_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "MAX_PAUSE", 0.0)
    at = Setting("a")
    assert await at.look() == []
    assert at.finder.start(at.view.managed, {}) is not None


@pytest.mark.usefixtures("resting")
async def test_dis39_looks_do_not_rest_after_one_that_ran_out_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """It did not try every node, so there may be something to find."""
    monkeypatch.setattr(moves, "MAX_SECONDS", 0.0)
    at = resting_setting()
    assert await at.look() == []
    assert at.finder.start(at.view.managed, {}) is not None


async def test_a_look_that_follows_a_change_waits_ten_times_the_cpu_time_of_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So looks at a cluster that changes all the time use 10 % of a core at most."""
    monkeypatch.setattr(moves, "BUSY_PAUSE_FACTOR", 1e9)
    at = Setting("a")
    assert await at.look() == []
    drifts(at)
    assert at.finder.start(at.view.managed, {}) is None
    assert moves.LOOK_SECONDS < at.finder.due_in() <= moves.MAX_PAUSE


@pytest.mark.usefixtures("resting")
async def test_a_look_at_a_part_of_the_nodes_is_soon_followed_by_the_next() -> None:
    """Looks rest only after a round that found nothing, and until something changes since the round began."""
    half = LookCursor(last={"default": LastLooked(price_per_cost=0.1, claim="a")}, more=True)
    seen: list[LookCursor | None] = []
    answers = [(half, ()), (LookCursor(), ()), (half, ()), (LookCursor(), ()), (half, (command("a"),))]

    class Turns(Scripted):
        def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
            seen.append(situation.cursor)
            cursor, commands = answers[len(seen) - 1]
            return Proposal(commands, cursor=cursor)

    at = Setting("a", "b", methods=[Turns(Proposal(), Reason.UNDERUTILIZED, "multi")])
    await at.look()
    await at.look()
    assert at.finder.start(at.view.managed, {}) is None
    may_evict(at)
    await at.look()
    may_evict(at)  # the first half of the round does not know it
    await at.look()
    await at.look()
    assert seen == [LookCursor(), half, LookCursor(), half, LookCursor()]
    assert at.finder.start(at.view.managed, {}) is not None


class Broken(Scripted):
    def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
        raise RuntimeError("the engine failed")


async def test_a_look_that_fails_goes_on_where_the_last_one_ended() -> None:
    """The next look began with the first nodes again, so those after a node that the engine fails on had no turn."""
    half = LookCursor(last={"default": LastLooked(price_per_cost=0.1, claim="a")}, more=True)
    at = Setting("a", "b", methods=[Broken(Proposal(), Reason.UNDERUTILIZED, "multi")])
    at.finder.resume(half)
    assert await at.look() == []
    assert at.finder.cursor == half


@pytest.mark.usefixtures("resting")
async def test_dis39_looks_do_not_rest_after_one_that_left_candidates_for_the_next() -> None:
    """Drift has only a share of the time, so it may leave some although the look was not over."""
    at = Setting("a", methods=[scripted(reason=Reason.DRIFTED, kind="", is_cut=True)])
    assert await at.look() == []
    assert at.finder.start(at.view.managed, {}) is not None


def test_dis78_drift_leaves_half_of_the_time_for_consolidation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drifted nodes that cannot leave used all of it in every look, so that consolidation found nothing for days."""
    seconds = 0.0
    simulate = Rescheduler.simulate

    def slow(self: Rescheduler, claims: Iterable[str], **how: Any) -> Plan:
        nonlocal seconds
        names = list(claims)
        seconds += 10.0 * any(name.startswith("stuck") for name in names)
        return simulate(self, names, **how)

    monkeypatch.setattr(Rescheduler, "simulate", slow)
    stuck = NodeSpec(
        pods=[PodSpec(selector={"kubernetes.io/hostname": "elsewhere"})], drifted="AMIDrift", price=0.0, quiet=None
    )
    nodes = {f"stuck-{number}": stuck for number in range(9)} | {"dear": NodeSpec(type="m5.4xlarge", pods=[PodSpec()])}
    methods = methods_within(Limit(60.0, lambda: seconds))
    decision = decide(situation(Cluster(nodes=nodes)), methods)
    assert [command.candidates[0].node.claim for command in decision.commands] == ["dear"]
    assert (len(decision.blocked), decision.is_cut) == (2, True), "the third simulation was cut"


@pytest.mark.parametrize("parent", ["end", "time"])
def test_a_part_of_a_limit_is_over_when_the_limit_is(parent: str) -> None:
    seconds = 0.0
    limit = Limit(10.0, lambda: seconds)
    seconds = 4.0
    part = limit.part(0.5)
    seconds = 6.9
    assert not part()
    if parent == "end":
        limit.end()
    else:
        seconds = 7.0
    assert part()


async def test_strays_are_found_outside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes long in a large cluster, and the same loop plans for pods that wait."""
    threads = []
    at = Setting("a", methods=[scripted()])

    def watched(nodes: Sequence[ManagedNode], *given: Any) -> Any:
        if nodes is at.view.managed:
            threads.append(threading.current_thread())
        return with_strays(nodes, *given)

    monkeypatch.setattr(moves, "with_strays", watched)
    await at.look()
    await at.finder.validate(to_message(command("a")), {})
    assert len(threads) == 2
    assert threading.main_thread() not in threads


async def test_the_pause_after_a_look_does_not_count_validations(monkeypatch: pytest.MonkeyPatch) -> None:
    """They use the CPU for commands that an earlier look found."""
    validated = threading.Event()
    used = threading.local()

    def thread_time() -> float:
        """Whatever is measured uses a second."""
        used.seconds = getattr(used, "seconds", 0.0) + 1.0
        return float(used.seconds)

    class Waiting(Scripted):
        def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
            assert validated.wait(30)
            return self._proposal

    monkeypatch.setattr(time, "thread_time", thread_time)
    monkeypatch.setattr(moves, "BUSY_PAUSE_FACTOR", 1e6)
    monkeypatch.setattr(moves, "MAX_PAUSE", inf)
    pauses = []
    for validations in (0, 2):
        at = Setting("a", methods=[Waiting(Proposal(), Reason.UNDERUTILIZED, "multi")])
        validated.clear()
        look = at.finder.start(at.view.managed, {})
        assert look is not None
        for _ in range(validations):
            await at.finder.validate(to_message(command("a")), {})
        validated.set()
        await look
        at.finder.take(at.situation())
        pauses.append(at.finder.due_in())
    assert pauses[0] > 1e6
    assert pauses == [pytest.approx(pauses[0], rel=0.01)] * 2


async def test_the_workflow_keeps_where_the_next_look_goes_on() -> None:
    """So that the next leader goes on there."""
    half = LookCursor(last={"default": LastLooked(price_per_cost=0.1, claim="a")}, more=True)

    def leader(*methods: Method) -> tuple[Setting, Disruptor]:
        at = Setting("a", "b", methods=methods)
        return at, Disruptor(at.view, lambda: START + timedelta(hours=1), moves=at.finder)

    at, disruptor = leader(scripted(cursor=half))
    found = await disruptor.await_candidates(AwaitDisruptionInput(cluster="c"))
    assert (found.cursor, found.commands, found.moves) == (half, [], [])
    at.view.wait_complete = False  # the next call ends without a look
    found = await disruptor.await_candidates(AwaitDisruptionInput(cluster="c", cursor=half, wait_seconds=0.05))
    assert found.cursor is None

    seen: list[LookCursor | None] = []

    class Watching(Scripted):
        def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
            seen.append(situation.cursor)
            return Proposal(cursor=LookCursor())

    at, disruptor = leader(Watching(Proposal(), Reason.UNDERUTILIZED, "multi"))
    found = await disruptor.await_candidates(AwaitDisruptionInput(cluster="c", cursor=half))
    assert (seen, found.cursor) == ([half], LookCursor())


async def test_met31_commands_that_do_not_start_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next look finds them again."""
    monkeypatch.setattr(moves, "MAX_COMMANDS", 1)
    kind = {"decision": "delete", "reason": "underutilized", "consolidation_type": "multi"}
    before = counted(f"{PREFIX}decisions_total", **kind)
    at = Setting("a", "b", methods=[scripted(command("a"), command("b"))])
    assert [one.candidates[0].claim for one in await at.look()] == ["a"]
    assert counted(f"{PREFIX}decisions_total", **kind) == before + 1


async def test_no_look_runs_while_no_node_is_quiet_for_long_enough() -> None:
    """A look costs much more than the question when the next node may be a candidate."""
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


@pytest.mark.parametrize(
    ("changed", "edits", "looks"),
    [
        ({}, {}, True),
        ({"empty": True}, {}, False),
        ({"leaving": True}, {}, False),
        ({}, {"disruption/consolidationPolicy": "WhenEmpty"}, False),
        ({}, {"disruption/consolidateAfter": "Never"}, False),
        ({"drifted": True}, {"disruption/consolidateAfter": "Never"}, True),
    ],
)
async def test_a_look_needs_a_node_that_may_have_to_leave(
    changed: dict[str, Any], edits: dict[str, Any], looks: bool
) -> None:
    at = Setting("a")
    at.view.pools = [node_pool(edits=edits)]
    at.view.managed = [managed("a", **{"empty": False, **changed})]
    assert (at.finder.start(at.view.managed, {}) is not None) is looks
