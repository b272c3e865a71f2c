"""A second plan of pods that spread over zones is completed only if it can cost less than the first."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tenon.apis import labels
from tenon.kube.pool_reasons import NoPlace
from tenon.scheduling.engine import fleets_of
from tenon.scheduling.first_fit_baseline import FleetPlan, cost_of
from tenon.scheduling.model import Plan
from tenon.scheduling.packing.fleet import Fleet, Kind, Program
from tenon.scheduling.second_plan import FAR, cannot_pay, placement_of
from tests.tenon.scheduling.between_pods import spread, web
from tests.tenon.scheduling.builders import AMD64, ON_DEMAND, ZONES, pool, problem, replicas

POOL = pool("default", ON_DEMAND, AMD64)


@pytest.fixture
def fleets() -> Sequence[Fleet]:
    """Nodes of pods that spread over zones, and of others."""
    return fleets_of(problem([*web(20, spread(), cpu="3"), *replicas(9, "1500m", "9Gi")], POOL))


def first_plan(fleets: Sequence[Fleet], plan: Plan | None = None) -> FleetPlan:
    return FleetPlan(plan or Plan(), fleets, comparable=True, placement=placement_of(fleets))


def kinds_by_zone(fleet: Fleet) -> dict[str, Kind]:
    """The kinds of the pods that spread, by zone."""
    assert fleet.program is not None
    kinds = fleet.program.worth
    return {
        zone: kind
        for zone in ZONES
        for kind in kinds
        if all(term.get(labels.ZONE).values == (zone,) for term in kind[1])
    }


def dearer_elsewhere(fleet: Fleet) -> Fleet:
    """The fleet, as if pods of the first zone cost twice as much as those of the others, and all nodes were full."""
    program = fleet.program
    assert program is not None
    dear = kinds_by_zone(fleet)[ZONES[0]]
    fleet.program = Program(cost_of([fleet]), {kind: 2.0 if kind == dear else 1.0 for kind in program.worth})
    return fleet


def moved(fleets: Sequence[Fleet], origin: str, target: str) -> Sequence[Fleet]:
    """Fleets of which one pod of a zone is in another zone."""
    by_zone = kinds_by_zone(fleets[0])
    other = Fleet(fleets[0].template)
    loads = [[(pod_class, count) for pod_class, count in node.load] for node in fleets[0].bins]
    by_kind = {(id(c.origin), c.terms): c for load in loads for c, _ in load}
    other.bins = [node.copy() for node in fleets[0].bins]
    number = next(n for n, load in enumerate(loads) if any(c is by_kind[by_zone[origin]] for c, _ in load))
    other.bins[number].load = [(c, count - (c is by_kind[by_zone[origin]])) for c, count in loads[number]] + [
        (by_kind[by_zone[target]], 1)
    ]
    return [other]


def test_a_plan_with_as_many_pods_in_each_zone_costs_the_same(fleets: Sequence[Fleet]) -> None:
    assert cannot_pay(fleets, first_plan(fleets))


def test_pods_in_a_cheaper_zone_can_pay_and_in_a_dearer_one_cannot(fleets: Sequence[Fleet]) -> None:
    dearer_elsewhere(fleets[0])
    plan = first_plan(fleets)
    assert not cannot_pay(moved(fleets, ZONES[0], ZONES[1]), plan)
    assert cannot_pay(moved(fleets, ZONES[1], ZONES[0]), plan)


def test_a_first_plan_far_from_its_program_is_worth_a_second(fleets: Sequence[Fleet]) -> None:
    program = fleets[0].program
    assert program is not None
    fleets[0].program = Program(cost_of(fleets) / (1.01 * FAR), program.worth)
    assert not cannot_pay(moved(fleets, ZONES[1], ZONES[0]), first_plan(fleets))


def test_nothing_is_known_without_a_program(fleets: Sequence[Fleet]) -> None:
    others = moved(fleets, ZONES[1], ZONES[0])
    fleets[0].program = None
    assert not cannot_pay(others, first_plan(fleets))


def test_more_pods_are_always_worth_a_second_plan(fleets: Sequence[Fleet]) -> None:
    lacking = Plan(unschedulable={"default/web-1": NoPlace.of("no room")})
    assert not cannot_pay(fleets, first_plan(fleets, lacking))
