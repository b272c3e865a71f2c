"""What a replay says about decisions that change, and about those that do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tenon.kube.pool_reasons import NoPlace
from tenon.messages.explanation import Explanation
from tenon.provisioning.plan_decoder import PlanInputDecoder
from tenon.provisioning.plan_digest import plan_digest
from tenon.provisioning.plan_document import PlanInputs
from tenon.provisioning.plan_encoder import PlanInputEncoder
from tenon.provisioning.replay import Replay, Verdict, compare, document, failure, headline, sentence
from tenon.provisioning.solving import BatchSolver, solve_with_buffers
from tenon.record.entries import PlanEntry
from tenon.record.kept_inputs import KeptInputs
from tenon.record.origin import Origin
from tenon.record.plans import plan_entry
from tenon.scheduling import engine
from tenon.scheduling.model import Plan, PlannedClaim, Problem
from tenon.scheduling.packing import sizing
from tests.tenon.scheduling.builders import ON_DEMAND, node, pod, pool, problem, replicas

NOW = datetime(2026, 11, 27, 6, tzinfo=UTC)


def entry_of(plan: Plan, pods: int, batch: int = 1) -> PlanEntry:
    """The entry of a plan that was carried out."""
    claims = [f"claim-{number}" for number, _ in enumerate(plan.claims)]
    return plan_entry(
        Origin("c"),
        NOW,
        plan,
        batch=batch,
        claims=claims,
        explanations=[Explanation() for _ in claims],
        pods=pods,
        decision=plan_digest(plan),
        inputs=KeptInputs("digest"),
    )


def again(inputs: PlanInputs) -> Problem:
    return PlanInputDecoder(inputs.catalogues.__getitem__).decode(inputs.digest, inputs.plan)


def recorded(value: Problem, batch: int = 1) -> PlanEntry:
    return entry_of(solve_with_buffers(value), len(value.pods), batch)


def bought(names: str, kind: str = "m5.large", price: float = 0.096) -> PlannedClaim:
    """A planned NodeClaim for pods with these names of one letter."""
    plan = solve_with_buffers(problem([pod("a", "100m")], pool("default", ON_DEMAND)))
    (claim,) = plan.claims
    return replace(
        claim,
        pods=tuple(pod(name) for name in names),
        instance_types=(kind,),
        offering=claim.offering._replace(instance_type=kind),
        price=price,
    )


def verdict(before: Sequence[PlannedClaim], after: Plan, pods: int = 2) -> Verdict:
    return compare(entry_of(Plan(tuple(before)), pods), after).verdict


def test_the_same_engine_changes_no_decision() -> None:
    batch = problem([*replicas(30, "700m"), pod("huge", "5000")], pool(), nodes=[node("n1")])
    inputs = PlanInputEncoder().encode(batch)
    entry = recorded(batch)
    comparison = compare(entry, BatchSolver()(again(inputs)))
    assert comparison.verdict is Verdict.SAME
    replay = Replay([comparison])
    assert headline(replay) == "No decision changes: today's engine makes the same 1 plan"
    assert replay.regressions() == []


def test_a_planted_regression_is_found_with_its_price(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine whose sizing takes the dearest of its packings, and compares it with no other."""
    batch = problem(replicas(13, "1500m", "2Gi"), pool("default", ON_DEMAND))
    inputs = PlanInputEncoder().encode(batch)
    entry = recorded(batch)
    monkeypatch.setattr(sizing, "min", max, raising=False)
    monkeypatch.setattr(engine, "best", lambda plan, _: plan)
    plan = BatchSolver()(again(inputs))
    replay = Replay([compare(entry, plan)])
    (regression,) = replay.regressions()
    assert regression.verdict is Verdict.DEARER
    assert regression.dollars == pytest.approx(sum(claim.price for claim in plan.claims) - entry.price)
    assert regression.dollars > 0.05
    assert headline(replay).startswith("1 of 1 decision changes: today's plans cost $0.")


def test_each_difference_has_its_verdict() -> None:
    before = [bought("ab")]
    assert verdict(before, Plan((bought("ab"),))) is Verdict.SAME
    assert verdict(before, Plan((bought("ab", price=0.1),))) is Verdict.SAME  # prices are those of the inputs
    assert verdict(before, Plan((bought("ab", "c5.large", 0.085),))) is Verdict.CHEAPER
    assert verdict(before, Plan((bought("ab", "r5.large", 0.126),))) is Verdict.DEARER
    assert verdict(before, Plan((bought("ab", "m5a.large"),))) is Verdict.OTHER_NODES
    assert verdict(before, Plan((bought("a"),), unschedulable={"default/b": NoPlace.of("no")})) is Verdict.FEWER_PODS
    assert verdict(before, Plan((bought("abc"),))) is Verdict.MORE_PODS
    assert verdict(before, Plan((bought("ac"),))) is Verdict.OTHER_PLACES
    assert verdict(before, Plan((bought("a"),), unreached=frozenset({"default/b"}))) is Verdict.UNFINISHED


def test_pods_on_nodes_that_exist_count_as_placed() -> None:
    on_existing = Plan(placements={"n1": (pod("a"), pod("b"))})
    assert compare(entry_of(on_existing, 2), on_existing).verdict is Verdict.SAME
    comparison = compare(entry_of(on_existing, 2), Plan((bought("ab"),)))
    assert comparison.verdict is Verdict.DEARER
    assert sentence(comparison) == "no nodes become 1 m5.large of default; $0.0960 an hour more"


def test_the_worst_come_first_and_only_what_is_worse_is_a_regression() -> None:
    before = [bought("ab")]
    entries = [entry_of(Plan(tuple(before)), 2, batch) for batch in range(4)]
    plans = [
        Plan((bought("ab", "c5.large", 0.085),)),
        Plan((bought("ab", "r5.large", 0.126),)),
        Plan((bought("a"),), unschedulable={"default/b": NoPlace.of("no")}),
        Plan((bought("ab"),)),
    ]
    replay = Replay([compare(entry, plan) for entry, plan in zip(entries, plans, strict=True)], {"gone": 2})
    assert [change.batch for change in replay.changes] == [2, 1, 0]
    assert [change.batch for change in replay.regressions()] == [2, 1]
    assert [change.batch for change in replay.regressions(tolerance=0.05)] == [2]
    assert headline(replay) == "3 of 4 decisions change: today's plans cost $0.0190 an hour more in sum"
    assert sentence(replay.changes[0]).endswith("1 pod placed instead of 2")
    text = document(replay)
    assert (text["plans"], text["changed"], text["regressions"]) == (4, 3, 2)
    assert text["verdicts"] == {"cheaper": 1, "dearer": 1, "fewer-pods": 1, "same": 1}
    assert text["changePerHour"] == pytest.approx(0.019)
    assert text["leftOut"] == [{"why": "gone", "plans": 2}]
    assert text["worst"][1]["after"]["nodes"] == [{"nodePool": "default", "instanceType": "r5.large", "count": 1}]


def test_an_engine_that_fails_is_a_regression() -> None:
    replay = Replay([failure(entry_of(Plan((bought("ab"),)), 2), "KeyError: 'zone'")])
    (regression,) = replay.regressions()
    assert sentence(regression) == "today's engine fails: KeyError: 'zone'"
    assert document(replay)["worst"][0]["error"] == "KeyError: 'zone'"


def test_an_entry_that_names_only_the_first_nodes_still_counts_all_pods() -> None:
    plan = Plan(tuple(bought(name) for name in "abcd"))
    entry = entry_of(plan, 4).model_copy(update={"purchases": entry_of(plan, 4).purchases[:2]})
    assert compare(entry, plan).verdict is Verdict.SAME
