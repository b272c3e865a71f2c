"""Looking for commands that move pods, and validating them: what metrics and events say of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from math import inf
from typing import Any

import pytest
from prometheus_client import REGISTRY
from temporalio.exceptions import ApplicationError

from activities.disruption import moves
from activities.disruption.decision_metrics import MAX_SCORE
from activities.disruption.disrupting import Disruptor
from activities.disruption.move_events import TASK
from activities.disruption.moves import methods_within
from activities.disruption.repair_source import RepairPolicies, no_repair, stated_repair
from activities.provisioning.solving import Limit
from tenon.apis import labels
from tenon.apis.reasons import Reason, snake_case
from tenon.disruption.commands.command_messages import to_message
from tenon.disruption.deciding import decide
from tenon.disruption.model import (
    ClusterModel,
    ManagedNode,
    Proposal,
    Situation,
    Verdict,
)
from tenon.disruption.rules.pool_budgets import PoolBudgets
from tenon.disruption.search.pods_elsewhere import pods_elsewhere
from tenon.disruption.search.rescheduling import Rescheduler
from tenon.disruption.validation import Validation
from tenon.ec2.commitments.coverage import Coverage
from tenon.ec2.refusals.backoff import Backoff
from tenon.ec2.types.instance_types import without
from tenon.evolve import evolve
from tenon.kube.offerings import OfferingKey
from tenon.kube.records import NodeCondition
from tenon.kube.requirements import Requirements
from tenon.messages.disruption import (
    AwaitDisruptionInput,
    DisruptionCommand,
    MeasuredSaving,
    OpenCommand,
    PoolSavings,
    Replacement,
)
from tenon.messages.provisioning import LaunchReport, UnavailableTypes
from tenon.node.breaker import refused
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Plan, PlannedClaim, Problem
from tests.activities.disruption.disruption_setting import managed
from tests.activities.disruption.move_setting import Scripted, Setting, command, scripted
from tests.activities.provisioning.fake_view import START, FakeTypes, node_pool
from tests.tenon.disruption.clusters import Cluster, NodeSpec, PodSpec, situation
from tests.tenon.scheduling.builders import CATALOG, pod, pool

PREFIX = "karpenter_voluntary_disruption_"


def counted(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


async def test_met29_met30_met31_a_pass_times_its_methods_and_counts_its_decisions() -> None:
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
    assert [len(item.candidates) for item in await at.run_pass()] == [2]
    assert [now - then for now, then in zip(counts(), before, strict=True)] == [1, 1, 1]


async def test_a_pass_frees_its_memory_outside_the_event_loop_even_if_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    at = Setting("a", methods=[scripted()])
    await at.run_pass()
    assert len(at.freed) == 1

    def broken() -> None:
        raise RuntimeError("no snapshot")

    failing = Setting("a", methods=[scripted()])
    monkeypatch.setattr(failing.view, "snapshot", broken)
    with pytest.raises(RuntimeError):
        await failing.run_pass()
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
    await at.run_pass()
    assert [now - then for now, then in zip(counts(), before, strict=True)] == [timeouts, 0]


@pytest.mark.parametrize(
    ("reason", "kind", "events"),
    [(Reason.UNDERUTILIZED, "multi", [("NodeClaim", "a", "ConsolidationRejected")]), (Reason.DRIFTED, "", [])],
)
async def test_dis46_met33_evt02_a_failed_validation_is_counted_and_reported(
    reason: Reason, kind: str, events: list[tuple[str, str, str]]
) -> None:
    name = f"{PREFIX}failed_validations_total"
    before = counted(name, consolidation_type=kind)
    at = Setting("b")
    why = (await at.finder.validate(to_message(command("a", reason=reason, kind=kind)), {})).failure
    assert why == "NodeClaim a is gone"
    assert counted(name, consolidation_type=kind) == before + 1
    assert [event[:3] for event in at.recorder.events] == events
    assert all(event[3] == why for event in at.recorder.events)


async def test_dis46_a_node_that_another_command_took_meanwhile_is_not_validated() -> None:
    at = Setting("a")
    disruption_command = to_message(command("a"))
    entry = OpenCommand(
        command=disruption_command.id, reason=disruption_command.reason, pool="default", until=START, since=START
    )
    other = entry.model_copy(update={"command": "another"})
    occupancy = "NodeClaim a: an open disruption command removes it"
    assert (await at.finder.validate(disruption_command, {"a": other})).failure == occupancy
    assert (await at.finder.validate(disruption_command, {"a": entry})).failure != occupancy


async def test_dis03_a_drift_command_takes_other_replacements_under_its_own_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever marks the node and its replacements names the command, and it leaves together with the same others."""
    name = f"{PREFIX}failed_validations_total"
    before = counted(name, consolidation_type="")
    launched = PlannedClaim(
        "default", (), ("m5.large",), Requirements(), {}, 0.1, OfferingKey("on-demand", "m5.large", "us-west-2a")
    )
    other = command("a", reason=Reason.DRIFTED, kind="", replacements=(launched, launched), saving=-0.1)
    monkeypatch.setattr(moves, "validated", lambda *_: Validation(instead=other))
    changed_disruption_command = to_message(command("a", reason=Reason.DRIFTED, kind="")).model_copy(
        update={"leaves_from": START}
    )
    at = Setting("a")
    result = await at.finder.validate(changed_disruption_command, {})
    assert result.failure == ""
    assert result.instead is not None
    assert (result.instead.id, result.instead.leaves_from, result.instead.saving) == (
        changed_disruption_command.id,
        START,
        -0.1,
    )
    assert [
        replacement.body["metadata"]["annotations"][labels.REPLACEMENT_FOR]
        for replacement in result.instead.replacements
    ] == [changed_disruption_command.id] * 2
    assert len({replacement.name for replacement in result.instead.replacements}) == 2
    assert counted(name, consolidation_type="") == before


async def test_dis62_no_command_removes_a_node_that_a_command_with_another_plan_moves_pods_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While that command is open. The workflow knows only the nodes that it was decided with."""
    other = command("a", reason=Reason.DRIFTED, kind="", destinations={"b": (pod("web"),)})
    at = Setting("a", "b")
    disruption_command = to_message(command("a", reason=Reason.DRIFTED, kind=""))
    monkeypatch.setattr(moves, "validated", lambda *_: Validation(instead=other))
    result = await at.finder.validate(disruption_command, {})
    assert result.instead is not None
    assert list(result.instead.arrivals) == ["b"]

    def nominated(_: DisruptionCommand, situation: Situation, *__: Any) -> Validation:
        return Validation(why=",".join(situation.nominated))

    monkeypatch.setattr(moves, "validated", nominated)
    entry = OpenCommand(
        command=disruption_command.id, reason=disruption_command.reason, pool="default", until=START, since=START
    )
    failed = entry.model_copy(update={"postponed": True})
    failures = [
        (await at.finder.validate(to_message(command("b")), ledger)).failure
        for ledger in ({"a": entry}, {}, {"a": failed})
    ]
    assert failures == ["b", "", ""]


async def test_dis46_a_validation_knows_that_the_nodes_last_command_is_over() -> None:
    """It comes before the workflow reports open commands again. A terminated command held its node 5 minutes longer."""
    at = Setting("a", "b", methods=[scripted(command("a"), command("b"))])
    disruptor = Disruptor(at.view, lambda: START + timedelta(hours=1), moves=at.finder)
    dead = OpenCommand(command="dead", reason="Underutilized", pool="default", until=START, since=START)
    disruption_decision = await disruptor.await_candidates(AwaitDisruptionInput(cluster="c", ledger={"a": dead}))
    assert (
        disruption_decision.finished_claims,
        [command.candidates[0].claim for command in disruption_decision.commands],
    ) == (
        ["a"],
        ["a", "b"],
    )
    occupancy = "NodeClaim a: an open disruption command removes it"
    assert (await disruptor.validate(disruption_decision.commands[0])).failure != occupancy
    assert (await disruptor.validate(to_message(command("a"), ident="another"))).failure == occupancy


async def test_a_replacement_that_a_savings_plan_covers_costs_nothing_in_what_was_saved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in what was predicted. A NodePool would otherwise be slowed down for moving pods to what is paid for."""
    at = Setting("a", "b", "new")
    covered = Coverage(covered={"new": "Savings Plan"})
    monkeypatch.setattr(at.finder._commitments, "coverage", lambda _: covered)
    disruption_command = to_message(
        command("a", "b", expected=0.2),
        ident="x",
        replacements=[Replacement(name="new", pool="default", body={})],
        prices={"a": 0.1, "b": 0.1},
    )
    (saving,) = (await at.finder.measure(disruption_command, ["a", "b"])).values()
    assert saving.reached == pytest.approx(0.2, abs=1e-4)


async def test_dis46_a_validation_waits_for_the_cache_of_a_worker_that_just_started() -> None:
    """A command that waits while its worker is replaced must not end because the new one has read nothing yet."""
    at = Setting("a")
    at.view.wait_complete = False
    with pytest.raises(ApplicationError, match="not synced yet"):
        await at.finder.validate(to_message(command("a")), {})


async def test_dis46_a_pass_counts_what_started_while_it_ran() -> None:
    at = Setting("a", "b", methods=[scripted(command("a"), command("b"))])
    look = at.finder.start(at.view.managed, {})
    assert look is not None
    await look
    at.view.pools = [node_pool(edits={"disruption/budgets": [{"nodes": "1"}]})]
    assert at.finder.take(at.situation(under_command=["b"])) == []


async def test_dis62_a_pass_leaves_nodes_that_an_open_command_moves_pods_to() -> None:
    names: list[Sequence[str]] = []

    class Watching(Scripted):
        def cause(self, node: ManagedNode, situation: Situation) -> str:
            return "a test asks for it"

        def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
            names.append([node.claim for node in eligible])
            return Proposal()

    at = Setting("a", "b", "c", methods=[Watching(Proposal(), Reason.UNDERUTILIZED, "multi")])
    entry = OpenCommand(command="c1", reason="Drifted", pool="default", until=START, since=START, hosts=["b"])
    look = at.finder.start(at.view.managed, {"c": entry})
    assert look is not None
    await look
    assert names == [["a"]]


async def test_a_pass_knows_what_ec2_refuses() -> None:
    """A move must depend neither on an offering nor on a NodePool that EC2 refused a moment ago."""
    situations: list[Situation] = []

    class Watching(Scripted):
        def cause(self, node: ManagedNode, situation: Situation) -> str:
            return "a test asks for it"

        def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
            situations.append(situation)
            return Proposal()

    async def model(at: Setting) -> ClusterModel:
        await at.run_pass()
        model = situations.pop().model
        assert model is not None
        return model

    watching = Watching(Proposal(), Reason.UNDERUTILIZED, "multi")
    first = CATALOG[0].name
    at = Setting("a", methods=[watching])
    at.refusals.replace_unavailable(
        {OfferingKey("on-demand", first, "us-west-2a"): Backoff(START + timedelta(hours=2))}
    )
    (pool,) = (await model(at)).problem.pools
    assert first not in {kind.name for kind in pool.instance_types}
    assert pool.limits != {"nodes": 0}

    at = Setting("a", methods=[watching])
    at.refusals.update([refused(None, "default", "Unauthorized", "you may not", START + timedelta(minutes=59))])
    assert [pool.limits for pool in (await model(at)).problem.pools] == [{"nodes": 0}]

    at = Setting("a", methods=[watching])
    breaker = refused(None, "default", "InvalidAMIID", "gone", START + timedelta(minutes=59), instance_types=[first])
    at.refusals.update([breaker])
    (pool,) = (await model(at)).problem.pools
    assert {kind.name for kind in pool.instance_types} == {kind.name for kind in CATALOG[1:]}, "only the refused type"
    assert pool.limits != {"nodes": 0}


async def test_a_validation_of_a_replacement_asks_what_ec2_refused_since_the_last_plan() -> None:
    """A launch that bought a dear type told nobody but the workflow, and its replacement would be a refused type."""
    first, requests = CATALOG[0].name, list[str]()
    at = Setting("a")

    async def answer() -> LaunchReport:
        requests.append("refusals")
        until = START + timedelta(hours=2)
        return LaunchReport(
            unavailable=[
                UnavailableTypes(capacity_type="on-demand", zone="us-west-2a", instance_types=[first], until=until)
            ]
        )

    at.refusals.ask = answer
    await at.finder.validate(to_message(command("a")), {})
    assert requests == [], "nothing is bought for it"
    replacing = evolve(to_message(command("a")), replacements=[Replacement(name="b", pool="default", body={})])
    await at.finder.validate(replacing, {})
    assert set(at.refusals.next_attempts()) == {OfferingKey("on-demand", first, "us-west-2a")}


async def test_a_validation_goes_on_with_what_is_known_if_nobody_answers() -> None:
    at, offering_key = Setting("a"), OfferingKey("on-demand", CATALOG[0].name, "us-west-2a")
    at.refusals.replace_unavailable({offering_key: Backoff(START + timedelta(hours=2))})

    async def no_answer() -> None:
        return None

    at.refusals.ask = no_answer
    await at.refusals.refresh()
    assert set(at.refusals.next_attempts()) == {offering_key}


MEASURED = "Command x saves $0.1000 an hour; $0.1600 was predicted"


def reached_savings() -> float:
    name = "tenon_consolidation_reached_savings_per_hour_total"
    return REGISTRY.get_sample_value(name, {"nodepool": "default"}) or 0.0


def saved_dollars(reason: Reason) -> float:
    series = {"nodepool": "default", "reason": snake_case(reason)}
    return REGISTRY.get_sample_value("tenon_disruption_saved_dollars_per_hour_total", series) or 0.0


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
async def test_wsh02_a_command_is_measured_at_the_prices_of_launched_offerings(
    reason: Reason, events: list[tuple[str, str, str, str]]
) -> None:
    at = Setting("a", "b", "new")
    replacements = [Replacement(name="new", pool="default", body={})]
    disruption_command = to_message(
        command("a", "b", reason=reason, expected=0.16),
        ident="x",
        replacements=replacements,
        prices={"a": 0.1, "b": 0.1},
    )
    expected = {"default": MeasuredSaving(predicted=0.16, reached=0.1)}
    before, saved_before = reached_savings(), saved_dollars(reason)
    assert await at.finder.measure(disruption_command, ["a", "b"]) == expected
    assert reached_savings() - before == pytest.approx(0.1 if events else 0.0), "only consolidation counts"
    assert saved_dollars(reason) - saved_before == pytest.approx(0.1), "each reason counts for itself"
    assert at.recorder.events == events
    del at.view.details["new"]
    assert await at.finder.measure(disruption_command, ["a", "b"]) == {}
    assert at.recorder.events == events
    at.view.wait_complete = False
    with pytest.raises(ApplicationError, match="not synced yet"):
        await at.finder.measure(disruption_command, ["a", "b"])


async def test_wsh01_a_pass_knows_which_pools_the_workflow_says_are_slowed_down() -> None:
    observations: list[Mapping[str, str]] = []

    class Watching(Scripted):
        def cause(self, node: ManagedNode, situation: Situation) -> str:
            return "a test asks for it"

        def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
            observations.append(situation.slowed)
            return Proposal()

    at = Setting("a", methods=[Watching(Proposal(), Reason.UNDERUTILIZED, "multi")])
    poor = PoolSavings(short=2, predicted=0.2, reached=0.01, at=START + timedelta(minutes=59))
    disruptor = Disruptor(at.view, lambda: START + timedelta(hours=1), slowed=at.slowed)
    await_disruption_input = AwaitDisruptionInput(cluster="c", savings={"default": poor}, wait_seconds=0.01)
    await disruptor.await_candidates(await_disruption_input)
    await at.run_pass()
    assert "saved $0.0100 an hour instead of $0.2000" in observations[0]["default"]


async def events_of(at: Setting) -> list[tuple[str, str, str, str]]:
    """The events of a pass."""
    await at.run_pass()
    await asyncio.gather(*(task for task in asyncio.all_tasks() if task.get_name() == TASK))
    return at.recorder.events


async def test_a_replacement_that_is_bought_in_a_shortage_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drifted node does not wait for cheaper capacity, so its replacement is replaced when that is available."""

    def marked(_: FakeTypes, node_class: Any, unavailable: frozenset[OfferingKey], **__: Any) -> Any:
        return without(CATALOG, unavailable)

    monkeypatch.setattr(FakeTypes, "instance_types", marked)
    (planned,) = solve(Problem([pod("a")], [pool(types=[CATALOG[-1]])])).claims
    zones = {offering.zone for offering in CATALOG[0].offerings}
    refused_types = [kind.name for kind in CATALOG if kind.name != CATALOG[-1].name]
    keys = [OfferingKey("spot", name, zone) for name in refused_types for zone in zones]

    async def marks(refusals: Iterable[OfferingKey]) -> list[str | None]:
        at = Setting("a", methods=[scripted(command("a", reason=Reason.DRIFTED, kind="", replacements=(planned,)))])
        at.refusals.replace_unavailable(dict.fromkeys(refusals, Backoff(START + timedelta(hours=2))))
        (result,) = await at.run_pass()
        return [
            replacement.body["metadata"]["annotations"].get(labels.BOUGHT_IN_SHORTAGE)
            for replacement in result.replacements
        ]

    assert await marks([]) == [None]
    assert await marks(keys) == ["0.0272"]


async def test_n15_127_n15_562_stopped_repair_is_said_on_the_node_the_nodeclaim_and_the_nodepool() -> None:
    """Only on nodes that are due. Nothing is said without node repair."""
    names = [f"n{number}" for number in range(5)]
    for repair, expected in ((stated_repair(lambda: RepairPolicies([]), list, reboots=False), 3), (no_repair, 0)):
        at = Setting(*names, methods=[scripted()], repair=repair)
        due = NodeCondition("StorageReady", "False", START.timestamp())
        young = NodeCondition("KernelReady", "False", (START + timedelta(minutes=59)).timestamp())
        at.view.managed[0] = replace(at.view.managed[0], node="node-0", unhealthy=(due,))
        at.view.managed[1] = replace(at.view.managed[1], node="node-1", unhealthy=(young,))
        at.view.managed[2:] = [replace(node, node=f"node-{node.claim}") for node in at.view.managed[2:]]
        events = await events_of(at) if expected else []
        text = "More than 20% of the nodes of NodePool default are unhealthy"
        subjects = [("NodeClaim", "n0"), ("Node", "node-0"), ("NodePool", "default")]
        assert events == [(*about, "NodeRepairBlocked", text) for about in subjects][:expected]


async def test_n15_129_the_pass_after_a_repair_follows_at_once() -> None:
    for reason, at_once in ((Reason.UNHEALTHY, True), (Reason.DRIFTED, False)):
        at = Setting("a", methods=[scripted(command("a", reason=reason, kind=""), reason=reason, kind="")])
        await at.run_pass()
        assert (at.finder.due_in() < 1.0) is at_once
        assert (at.finder.start(at.view.managed, {}) is not None) is at_once, "although nothing has changed"


async def test_evt02_a_node_that_consolidation_leaves_says_why() -> None:
    at = Setting("a", "b", methods=[scripted(unconsolidatable={"a": "the price is unknown", "gone": "it is gone"})])
    assert await events_of(at) == [("NodeClaim", "a", "Unconsolidatable", "The price is unknown")]


async def test_evt02_a_node_bought_in_a_shortage_says_so_when_it_cannot_leave() -> None:
    pod_holds_it = "pod default/web: annotation karpenter.sh/do-not-disrupt protects it"
    at = Setting("a", "b", methods=[scripted(blocked={"a": pod_holds_it}, unconsolidatable={"b": "it is cheap"})])
    at.view.managed[0] = replace(at.view.managed[0], bought_in_shortage=True)
    text = f"It was bought in a capacity shortage, and Tenon cannot replace it: {pod_holds_it}"
    assert await events_of(at) == [
        ("NodeClaim", "a", "DisruptionBlocked", text),
        ("NodeClaim", "b", "Unconsolidatable", "It is cheap"),
    ]
    assert at.finder.why_blocked() == {"a": pod_holds_it}, "rollouts ask for it"


async def test_evt02_a_move_that_balanced_approved_says_its_score() -> None:
    verdicts = (
        Verdict("default", ("a",), 0.8, approved=True),
        Verdict("default", ("a", "b"), 2.0, approved=True),
        Verdict("default", ("b",), 0.2, approved=False),
    )
    assert await events_of(Setting("a", "b", methods=[scripted(verdicts=verdicts)])) == [
        ("NodeClaim", "a", "ConsolidationApproved", "score 0.80 >= threshold 0.50"),
        ("NodePool", "default", "ConsolidationApproved", "score 2.00 >= threshold 0.50"),
    ]


async def test_met35_met36_moves_and_their_scores_are_counted() -> None:
    def counts() -> list[float]:
        result = []
        for decision, policy in (
            ("approved", "WhenEmptyOrUnderutilized"),
            ("approved", "Balanced"),
            ("rejected", "Balanced"),
        ):
            labels = {"decision": decision, "nodepool": "default", "policy": policy}
            result += [counted(f"karpenter_consolidation_{name}", **labels) for name in ("moves_total", "score_sum")]
        return result

    before = counts()
    verdicts = (Verdict("default", ("a",), inf, approved=True), Verdict("default", ("b",), 0.25, approved=False))
    await Setting("a", "b", methods=[scripted(command("a"), verdicts=verdicts)]).run_pass()
    assert [now - then for now, then in zip(counts(), before, strict=True)] == [1, 0, 0, MAX_SCORE, 1, 0.25]


def test_dis78_drift_leaves_half_of_the_time_for_consolidation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drifted nodes that cannot leave used all of it in every pass, so that consolidation found nothing for days."""
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


async def test_pods_elsewhere_are_found_outside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes long in a large cluster, and the same loop plans for pods that wait."""
    threads = []
    at = Setting("a", methods=[scripted()])

    def watched(nodes: Sequence[ManagedNode], *value: Any) -> Any:
        threads.append(threading.current_thread())
        return pods_elsewhere(nodes, *value)

    monkeypatch.setattr("tenon.disruption.search.pods_elsewhere.pods_elsewhere", watched)
    await at.run_pass()
    await at.finder.validate(to_message(command("a")), {})
    assert len(threads) == 2
    assert threading.main_thread() not in threads


async def test_met31_commands_that_do_not_start_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next pass finds them again."""
    monkeypatch.setattr(moves, "MAX_COMMANDS", 1)
    kind = {"decision": "delete", "reason": "underutilized", "consolidation_type": "multi"}
    before = counted(f"{PREFIX}decisions_total", **kind)
    at = Setting("a", "b", methods=[scripted(command("a"), command("b"))])
    assert [item.candidates[0].claim for item in await at.run_pass()] == ["a"]
    assert counted(f"{PREFIX}decisions_total", **kind) == before + 1


async def test_a_pass_starts_fewer_commands_that_launch_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """NodeClaims are large, and all commands of a pass must fit in a message."""
    monkeypatch.setattr(moves, "MAX_LAUNCHING", 1)
    (launched,) = solve(Problem([pod()], [pool()])).claims
    launching = [command(name, replacements=(launched,)) for name in "ac"]
    at = Setting("a", "b", "c", "d", methods=[scripted(launching[0], command("b"), launching[1], command("d"))])
    assert [item.candidates[0].claim for item in await at.run_pass()] == ["a", "b", "d"]


async def test_commands_of_one_pass_evict_their_pods_at_the_same_time() -> None:
    at = Setting("a", "b", methods=[scripted(command("a"), command("b"))])
    first, second = await at.run_pass()
    assert first.leaves_from == second.leaves_from is not None


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
async def test_a_pass_needs_a_node_that_may_have_to_leave(
    changed: dict[str, Any], edits: dict[str, Any], looks: bool
) -> None:
    at = Setting("a")
    at.view.pools = [node_pool(edits=edits)]
    at.view.managed = [managed("a", **{"empty": False, **changed})]
    assert (at.finder.start(at.view.managed, {}) is not None) is looks
