"""Validating commands that move pods: what ends one, and what is carried out in its place."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from activities.disruption import move_validation
from activities.disruption.disrupting import Disruptor
from tenon.apis import labels
from tenon.apis.hashing import nodepool_hash
from tenon.apis.nodepool import NodePool
from tenon.apis.reasons import Reason
from tenon.disruption.commands.command_messages import to_message
from tenon.disruption.commands.open_commands import opened
from tenon.disruption.commands.pod_mark import pod_mark
from tenon.disruption.decision import Candidate
from tenon.disruption.situation import Situation
from tenon.disruption.validation import Validation
from tenon.ec2.refusals.backoff import Backoff
from tenon.evolve import evolve
from tenon.kube.offerings import OfferingKey
from tenon.kube.requirements import Requirements
from tenon.messages.disruption import (
    AwaitDisruptionInput,
    DisruptionCandidate,
    DisruptionCommand,
    OpenCommand,
    Replacement,
    StepResult,
)
from tenon.messages.provisioning import LaunchReport, UnavailableTypes
from tenon.provisioning.claims import static_claim_body
from tenon.record.commands import command_entry
from tenon.record.origin import Origin
from tenon.resources import parse_resources
from tenon.rollout.revisions import class_key
from tenon.rollout.versions import PoolPhase, PoolRollout
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Node, PlannedClaim, Problem
from tests.activities.disruption.counting import PREFIX, counted
from tests.activities.disruption.disruption_setting import managed
from tests.activities.disruption.move_setting import Setting, command, scripted
from tests.activities.provisioning.fake_view import START, node_class, node_pool
from tests.tenon.scheduling.builders import CATALOG, pod, pool


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
    why = (await at.validator.validate(to_message(command("a", reason=reason, kind=kind)), {})).failure
    assert why == "NodeClaim a is gone"
    assert counted(name, consolidation_type=kind) == before + 1
    assert [event[:3] for event in at.recorder.events] == events
    assert all(event[3] == why for event in at.recorder.events)


async def test_evt02_a_rejected_consolidation_is_said_on_the_node_too() -> None:
    at = Setting("a")
    node = at.view.managed[0] = replace(at.view.managed[0], node="node-a")
    move = to_message(replace(command("a"), candidates=(Candidate(node, since=START),)))
    entry = OpenCommand(command="another", reason=move.reason, pool="default", until=START, since=START)
    assert (await at.validator.validate(move, {"a": entry})).failure
    about = [("NodeClaim", "a"), ("Node", "node-a")]
    assert [event[:3] for event in at.recorder.events] == [(*subject, "ConsolidationRejected") for subject in about]
    assert at.recorder.uids["Node", "node-a"] == "uid-of-node-a"


async def test_dis46_a_node_that_another_command_took_meanwhile_is_not_validated() -> None:
    at = Setting("a")
    disruption_command = to_message(command("a"))
    entry = OpenCommand(
        command=disruption_command.id, reason=disruption_command.reason, pool="default", until=START, since=START
    )
    other = entry.model_copy(update={"command": "another"})
    occupancy = "NodeClaim a: an open disruption command removes it"
    assert (await at.validator.validate(disruption_command, {"a": other})).failure == occupancy
    assert (await at.validator.validate(disruption_command, {"a": entry})).failure != occupancy


async def test_dis03_a_drift_command_takes_other_replacements_under_its_own_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever marks the node and its replacements names the command, and it leaves together with the same others."""
    name = f"{PREFIX}failed_validations_total"
    before = counted(name, consolidation_type="")
    launched = PlannedClaim(
        "default", (), ("m5.large",), Requirements(), {}, 0.1, OfferingKey("on-demand", "m5.large", "us-west-2a")
    )
    other = command("a", reason=Reason.DRIFTED, kind="", replacements=(launched, launched), expected=-0.1)
    monkeypatch.setattr(move_validation, "validated", lambda *_: Validation(instead=other))
    changed_disruption_command = to_message(command("a", reason=Reason.DRIFTED, kind="")).model_copy(
        update={"leaves_from": START}
    )
    at = Setting("a")
    result = await at.validator.validate(changed_disruption_command, {})
    assert result.failure == ""
    assert result.instead is not None
    assert (result.instead.id, result.instead.leaves_from, result.instead.predicted) == (
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


async def test_an_approved_replacement_of_a_wave_has_the_version_of_the_wave(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only of a static NodePool: others get a plan of now. What launches otherwise is the version that passed."""
    at, passed = Setting("a"), node_pool()
    template = evolve(
        passed.spec.template, metadata=evolve(passed.spec.template.metadata, labels={"example.com/version": "new"})
    )
    target = evolve(passed, spec=evolve(passed.spec, template=template))
    at.view.pools, at.view.waves = [passed], [target]
    monkeypatch.setattr(move_validation, "validated", lambda *_: Validation())
    annotations = {labels.NODEPOOL_HASH: nodepool_hash(target)}
    replacement = Replacement(name="r", pool="default", body={"metadata": {"annotations": annotations}})
    drift = replace(command("a", reason=Reason.DRIFTED, kind=""), approve_within=timedelta(days=1))
    of_wave = to_message(drift, replacements=[replacement])
    changed = "NodePool default has changed since the command was decided"
    assert (await at.validator.validate(of_wave, {})).failure == ""
    assert (await at.validator.validate(evolve(of_wave, reason="Underutilized"), {})).failure == changed
    at.view.waves = []
    assert (await at.validator.validate(of_wave, {})).failure == changed, "the wave was taken back meanwhile"


CHANGED = "NodePool default has changed since the command was decided"


def with_label(value: str) -> NodePool:
    """The NodePool whose template has another label, and so another hash."""
    return node_pool(
        edits={"disruption/budgets": [{"nodes": "100%"}], "template/metadata/labels": {"own/version": value}}
    )


def planned_from(pool: NodePool) -> Replacement:
    """A replacement of one instance type, as a search planned it from this NodePool."""
    planned = PlannedClaim(
        pool.metadata.name,
        (),
        (CATALOG[-1].name,),
        Requirements(),
        {},
        0.1,
        OfferingKey("on-demand", CATALOG[-1].name, "us-west-2a"),
    )
    return Replacement(name="r", pool=pool.metadata.name, body=static_claim_body(planned, pool, "r"))


def replacing(*replacements: Replacement, reason: Reason = Reason.DRIFTED) -> DisruptionCommand:
    kind = "" if reason is Reason.DRIFTED else "multi"
    return to_message(command("a", reason=reason, kind=kind), replacements=list(replacements))


def with_a_drifted_node() -> Setting:
    """The pod of the only node needs a new node."""
    at = Setting("a")
    room = parse_resources({"cpu": "4", "memory": "8Gi", "pods": 10})
    at.view.existing = [Node("a", {labels.NODEPOOL: "default"}, (), room, {})]
    moved = pod("web")
    at.view.details["a"] = replace(at.view.details["a"], pods=(moved,), drifted="NodePoolDrifted")
    return at


async def test_dis03_a_drift_command_buys_nodes_of_the_template_of_now() -> None:
    """A user changed the template while the search ran: a node of the earlier one would drift at once."""
    at = with_a_drifted_node()
    at.view.pools = [with_label("1")]
    decided = evolve(replacing(planned_from(with_label("1"))), candidates=candidates_with_pods("uid-web"))
    assert await at.validator.validate(decided, {}) == StepResult()
    at.view.pools = [with_label("2")]
    result = await at.validator.validate(decided, {})
    assert result.failure == ""
    assert result.instead is not None
    (replacement,) = result.instead.replacements
    assert replacement.body["metadata"]["annotations"][labels.NODEPOOL_HASH] == nodepool_hash(with_label("2"))
    assert result.instead.id == decided.id
    assert result.why_instead == CHANGED


@pytest.mark.parametrize("reason", [Reason.DRIFTED, Reason.UNDERUTILIZED])
async def test_dis46_a_command_ends_if_a_node_may_not_leave_any_more_when_all_else_is_known(
    monkeypatch: pytest.MonkeyPatch, reason: Reason
) -> None:
    """A person paused a rollout, or protected the node, while EC2 was asked for instance types."""
    at = Setting("a")
    (planned,) = solve(Problem([pod("a")], [pool(types=CATALOG)])).claims
    other = command("a", reason=reason, kind="", replacements=(planned,))
    monkeypatch.setattr(move_validation, "validated", lambda *_: Validation("its pods need others", other))
    decided = replacing(planned_from(at.view.pools[0]), reason=reason)
    hosts: list[DisruptionCommand] = []
    monkeypatch.setattr(at.situations, "has_other_replacements", hosts.append)
    assert await at.validator.validate(decided, {}, lambda: Validation("b")) == StepResult(failure="b")
    assert hosts == [], "no node is kept for pods that do not come"
    assert (await at.validator.validate(decided, {})).why_instead == "its pods need others"
    assert len(hosts) == 1


async def test_dis03_a_drift_command_of_a_rollout_buys_nodes_of_the_version_that_its_wave_gets_now() -> None:
    """The user withdrew version 2 while the search ran, and the next wave begins with the same node."""
    at = with_a_drifted_node()
    passed = with_label("1")
    of_version = {
        digest: evolve(passed, metadata=evolve(passed.metadata, annotations={labels.REVISION: digest}))
        for digest in ("v1", "v2", "v3")
    }
    at.view.classes |= {class_key(pool): node_class() for pool in of_version.values()}
    at.view.pools = [of_version["v1"]]
    decided = evolve(replacing(planned_from(of_version["v2"])), candidates=candidates_with_pods("uid-web"))

    async def validated_in_wave_of(version: str) -> StepResult:
        wave = PoolRollout("nodes", "default", "v1", version, PoolPhase.PROGRESSING, frozenset({"a"}))
        at.view.pool_rollouts, at.view.waves = {"default": wave}, [of_version[version]]
        return await at.validator.validate(decided, {})

    assert await validated_in_wave_of("v2") == StepResult()
    result = await validated_in_wave_of("v3")
    assert result.instead is not None
    (replacement,) = result.instead.replacements
    assert replacement.body["metadata"]["annotations"][labels.REVISION] == "v3"


async def test_dis46_a_consolidation_whose_nodepool_has_changed_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    at = Setting("a")
    monkeypatch.setattr(move_validation, "validated", lambda *arguments: Validation(arguments[-1]))
    decided = replacing(planned_from(at.view.pools[0]), reason=Reason.UNDERUTILIZED)
    assert (await at.validator.validate(decided, {})).failure == ""
    at.view.pools = [with_label("2")]
    assert (await at.validator.validate(decided, {})).failure == CHANGED
    assert [event[:3] for event in at.recorder.events] == [("NodeClaim", "a", "ConsolidationRejected")]


@pytest.mark.parametrize("instead", [False, True], ids=["as-decided", "instead"])
async def test_a_nodepool_that_changes_during_a_validation_ends_the_command(
    monkeypatch: pytest.MonkeyPatch, *, instead: bool
) -> None:
    """Also if the command got other replacements, because these were planned before the change."""
    at = Setting("a")
    planned = PlannedClaim(
        "default", (), ("m5.large",), Requirements(), {}, 0.1, OfferingKey("on-demand", "m5.large", "us-west-2a")
    )
    other = command("a", reason=Reason.DRIFTED, kind="", replacements=(planned,))

    def changing(*_: Any) -> Validation:
        at.view.pools = [with_label("2")]
        return Validation(instead=other if instead else None)

    monkeypatch.setattr(move_validation, "validated", changing)
    assert (await at.validator.validate(replacing(planned_from(at.view.pools[0])), {})) == StepResult(failure=CHANGED)


def candidates_with_pods(*uids: str) -> list[DisruptionCandidate]:
    (candidate,) = to_message(command("a")).candidates
    return [evolve(candidate, pods=[pod_mark(uid) for uid in uids])]


async def test_an_approved_command_leaves_a_place_in_the_budget_to_one_that_started_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its validation takes seconds in a large cluster, and an empty node is decided about in between."""
    at = Setting("a", "b")
    edits = {"disruption/budgets": [{"nodes": "1"}], "disruption/consolidateAfter": "0s"}
    at.view.pools = [node_pool(edits=edits)]
    disruptor = Disruptor(at.view, lambda: START + timedelta(hours=1), validator=at.validator)
    approved = to_message(replace(command("a", reason=Reason.DRIFTED, kind=""), approve_within=timedelta(days=1)))
    question = AwaitDisruptionInput(cluster="c", ledger=opened(approved, START, START + timedelta(days=2)))
    question = evolve(question, wait_seconds=0.01)
    await disruptor.await_candidates(question)
    with_model = at.situations.with_model

    async def slow(*arguments: Any) -> Any:
        model = await with_model(*arguments)
        at.view.managed[1] = replace(at.view.managed[1], empty=True)
        (started,) = (await disruptor.await_candidates(question)).commands
        assert [candidate.claim for candidate in started.candidates] == ["b"]
        return model

    monkeypatch.setattr(move_validation, "validated", lambda *_: Validation())
    monkeypatch.setattr(at.situations, "with_model", slow)
    assert (await disruptor.validate(approved)).waits == "the budgets of NodePool default do not allow it any more"
    monkeypatch.setattr(at.situations, "with_model", with_model)
    at.view.managed = [managed("a", empty=False)]
    await disruptor.await_candidates(question)
    assert await disruptor.validate(approved) == StepResult(), "the other node is gone"


async def test_the_record_says_the_cheapest_type_of_a_replacement_whatever_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The NodeClaim lists its types by name, and the price is that of the cheapest one."""
    planned = PlannedClaim(
        "default",
        (),
        ("m5.large", "c5.large"),
        Requirements(),
        {},
        0.05,
        OfferingKey("on-demand", "m5.large", "us-west-2a"),
    )
    other = command("a", reason=Reason.DRIFTED, kind="", replacements=(planned,))
    monkeypatch.setattr(move_validation, "validated", lambda *_: Validation(instead=other))
    result = await Setting("a").validator.validate(to_message(command("a", reason=Reason.DRIFTED, kind="")), {})
    assert result.instead is not None
    (purchase,) = command_entry(Origin("c", "w", "r"), START, result.instead, "r").replacements
    assert (purchase.instance_type, purchase.price) == ("m5.large", 0.05)


async def test_dis62_no_command_removes_a_node_that_a_command_with_another_plan_moves_pods_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While that command is open. The workflow knows only the nodes that it was decided with."""
    other = command("a", reason=Reason.DRIFTED, kind="", destinations={"b": (pod("web"),)})
    at = Setting("a", "b")
    disruption_command = to_message(command("a", reason=Reason.DRIFTED, kind=""))
    monkeypatch.setattr(move_validation, "validated", lambda *_: Validation(instead=other))
    result = await at.validator.validate(disruption_command, {})
    assert result.instead is not None
    assert list(result.instead.arrivals) == ["b"]

    def nominated(_: DisruptionCommand, situation: Situation, *__: Any) -> Validation:
        return Validation(why=",".join(situation.nominated))

    monkeypatch.setattr(move_validation, "validated", nominated)
    entry = OpenCommand(
        command=disruption_command.id, reason=disruption_command.reason, pool="default", until=START, since=START
    )
    failed = entry.model_copy(update={"postponed": True})
    failures = [
        (await at.validator.validate(to_message(command("b")), ledger)).failure
        for ledger in ({"a": entry}, {}, {"a": failed})
    ]
    assert failures == ["b", "", ""]


async def test_dis46_a_validation_knows_that_the_nodes_last_command_is_over() -> None:
    """It comes before the workflow reports open commands again. A terminated command held its node 5 minutes longer."""
    at = Setting("a", "b", methods=[scripted(command("a"), command("b"))])
    disruptor = Disruptor(at.view, lambda: START + timedelta(hours=1), moves=at.finder, validator=at.validator)
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


async def test_dis46_a_validation_waits_for_the_cache_of_a_worker_that_just_started() -> None:
    """A command that waits while its worker is replaced must not end because the new one has read nothing yet."""
    at = Setting("a")
    at.view.wait_complete = False
    with pytest.raises(ApplicationError, match="not synced yet"):
        await at.validator.validate(to_message(command("a")), {})


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
    await at.validator.validate(to_message(command("a")), {})
    assert requests == [], "nothing is bought for it"
    await at.validator.validate(replacing(planned_from(at.view.pools[0])), {})
    assert set(at.refusals.next_attempts()) == {OfferingKey("on-demand", first, "us-west-2a")}


async def test_a_validation_goes_on_with_what_is_known_if_nobody_answers() -> None:
    at, offering_key = Setting("a"), OfferingKey("on-demand", CATALOG[0].name, "us-west-2a")
    at.refusals.replace_unavailable({offering_key: Backoff(START + timedelta(hours=2))})

    async def no_answer() -> None:
        return None

    at.refusals.ask = no_answer
    await at.refusals.refresh()
    assert set(at.refusals.next_attempts()) == {offering_key}
