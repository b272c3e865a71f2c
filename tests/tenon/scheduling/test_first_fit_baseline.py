"""Where pods look at each other a plan is no dearer than plain first-fit for the same pods under the same rules."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings

from tenon.apis import labels
from tenon.kube.pod_rules import PodRules, PodTerm, SpreadRule
from tenon.kube.selectors import LabelSelector
from tenon.scheduling import engine
from tenon.scheduling.claim_builder import claims_of
from tenon.scheduling.engine import solve
from tenon.scheduling.first_fit_baseline import EFFORT, MAX_CLASSES, FleetPlan, best, is_worthwhile
from tenon.scheduling.model import Plan, Problem
from tenon.scheduling.packing.fleet import Fleet
from tests.tenon.scheduling.builders import AMD64, ON_DEMAND, catalog, entry, pool, price, problem, replicas
from tests.tenon.scheduling.random_problems import problems

SIZES = (("8xlarge", 32), ("12xlarge", 48))
FAMILIES = (("c5", 2, 0.0425), ("m5", 4, 0.048), ("r5", 8, 0.063))
ZONES = ("us-west-2a", "us-west-2b", "us-west-2c", "us-west-2d")
TYPES = catalog(
    *(
        entry(f"{family}.{size}", cpu, cpu * gib, round(cpu * dollars, 5), zones=ZONES)
        for family, gib, dollars in FAMILIES
        for size, cpu in SIZES
    )
)


def app(name: str) -> LabelSelector:
    return LabelSelector((("app", "In", (name,)),))


def batch() -> Problem:
    """Three pods that keep each other off their nodes, and thirty over four zones."""
    alone = PodRules(anti_affinity=(PodTerm(labels.HOSTNAME, app("apart")),))
    even = PodRules(spreads=(SpreadRule(labels.ZONE, 1, app("even")),))
    pods = [
        *replicas(3, "7", "256Mi", "apart", labels={"app": "apart"}, rules=alone),
        *replicas(30, "3500m", "20000Mi", "even", labels={"app": "even"}, rules=even),
    ]
    return problem(pods, pool("default", ON_DEMAND, AMD64, types=TYPES))


def test_zones_are_chosen_with_a_pass_at_prices() -> None:
    """Packed zone by zone the nodes cost more: two zones then have both eight of the thirty and one of the three."""
    plan = solve(batch())
    assert plan.unschedulable == {}
    assert [(claim.offering.instance_type, len(claim.pods)) for claim in plan.claims] == [
        ("m5.12xlarge", 9),
        ("r5.8xlarge", 8),
        ("r5.8xlarge", 8),
        ("r5.8xlarge", 8),
    ]
    assert price(plan) == pytest.approx(8.352)


@given(problems())
@settings(max_examples=30)
def test_a_first_fit_that_ends_early_changes_no_plan(drawn: Problem) -> None:
    """It ends as soon as its nodes cost more than the plan that it is compared with."""
    for item in (drawn, batch()):
        plan = solve(item)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(engine, "is_no_better", lambda *_, **__: False)
            assert solve(item) == plan


def test_a_plan_is_no_dearer_than_a_first_fit_that_ended_early() -> None:
    """Its complete price is not known, but is at least that of its nodes so far."""

    def fleets(nodes: int) -> Sequence[Fleet]:
        return engine.fleets_of(problem(replicas(nodes, "30", "1Gi"), pool("default", ON_DEMAND, AMD64, types=TYPES)))

    def plan(priced_as: int, sized_as: int) -> FleetPlan:
        claims = tuple(claim for fleet in fleets(priced_as) for claim in claims_of(fleet, {}))
        return FleetPlan(Plan(claims), fleets(sized_as), comparable=True)

    packed, dear = plan(1, 4), plan(3, 1)
    beaten = FleetPlan(Plan(), fleets(2), comparable=False, is_beaten=True)
    assert best(packed, [dear]) is dear, "it is sized better, and no first-fit is cheaper"
    assert best(packed, [beaten, dear]) is packed
    assert best(packed, [beaten, beaten]) is packed


def test_the_order_of_the_pods_does_not_matter() -> None:
    forward, backward = batch(), batch()
    backward = problem(list(reversed(backward.pods)), *backward.pools)
    assert solve(forward) == solve(backward)


def test_large_loads_are_planned_once() -> None:
    assert is_worthwhile(100, MAX_CLASSES, EFFORT // 100)
    assert not is_worthwhile(101, 1, EFFORT // 100)
    assert not is_worthwhile(1, MAX_CLASSES + 1, 1)
    assert not is_worthwhile(100, 1, 0)
