"""The lower bound by the rules that nodes are sized by: the same game as the plan, so that the ratio says something."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from tenon.apis import labels
from tenon.scheduling.bound.lower_bound import lower_bound, lower_bound_of_sizing
from tenon.scheduling.bound.sizing_rules import sizing_cost, sizing_rules
from tenon.scheduling.column_generation.columns import Columns
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Problem
from tests.tenon.scheduling.between_pods import away, spread, web
from tests.tenon.scheduling.builders import ON_DEMAND, ZONES, catalog, entry, node, pool, problem, replicas
from tests.tenon.scheduling.random_problems import problems

CHARGE = 0.02


def bare(name: str, cpu: int, gib: int, price: float, **more: Any) -> dict[str, Any]:
    """An entry whose whole capacity is for pods."""
    return {**entry(name, cpu, gib, price, **more), "overhead": {}}


def bound(batch: Problem) -> float:
    return lower_bound_of_sizing(batch, solve(batch))


@settings(max_examples=60, deadline=None)
@given(problems())
def test_no_plan_has_a_sizing_cost_below_the_bound(batch: Problem) -> None:
    for plan in (solve(batch), solve(batch, columns=Columns())):
        least = lower_bound_of_sizing(batch, plan)
        assert 0 <= least <= sizing_cost(batch, plan) + 1e-9
        assert least >= lower_bound(batch, left_out=plan.unschedulable, node_charge=CHARGE) - 1e-6


def test_burstable_types_have_room_by_their_cpu_baseline() -> None:
    """t3.large sustains 600m, which is one of these pods; m5.large holds four of them."""
    types = catalog(bare("t3.large", 2, 8, 0.05), bare("m5.large", 2, 8, 0.1))
    batch = problem(replicas(40, "500m", "1Gi"), pool("default", ON_DEMAND, types=types))
    assert bound(batch) == pytest.approx(10 * 0.12)
    assert lower_bound(batch, node_charge=CHARGE) == pytest.approx(10 * 0.07)
    plan = solve(batch)
    assert sizing_cost(batch, plan) >= bound(batch)


def test_a_pool_that_sells_only_burstable_types_counts_their_vcpus() -> None:
    batch = problem(replicas(4, "1", "1Gi"), pool(types=catalog(bare("t3.large", 2, 8, 0.08, zones=ZONES[:1]))))
    plan = solve(batch)
    assert sizing_rules(batch, plan).by_baseline == frozenset()
    assert sizing_cost(batch, plan) == pytest.approx(sum(claim.price + CHARGE for claim in plan.claims))
    assert lower_bound_of_sizing(batch, plan) <= sizing_cost(batch, plan) + 1e-9


def test_pods_that_keep_each_other_away_need_a_node_each() -> None:
    small, large = bare("m5.large", 2, 8, 0.1), bare("m5.8xlarge", 32, 128, 1.5)
    batch = problem(web(12, away(labels.HOSTNAME), cpu="100m"), pool("default", ON_DEMAND, types=catalog(small, large)))
    assert bound(batch) == pytest.approx(12 * 0.12)
    assert lower_bound(batch, node_charge=CHARGE) < 0.2


def test_a_spread_over_zones_buys_in_each_zone() -> None:
    """The cheap type is sold in one zone, and a third of the pods must be in each of the three."""
    cheap, dear = bare("m5.large", 2, 8, 0.1, zones=ZONES[:1]), bare("m5.xlarge", 4, 16, 0.6)
    batch = problem(web(12, spread(labels.ZONE), cpu="1"), pool("default", ON_DEMAND, types=catalog(cheap, dear)))
    assert bound(batch) == pytest.approx(2 * 0.12 + 2 * 0.62)
    assert lower_bound(batch, node_charge=CHARGE) == pytest.approx(6 * 0.12)


def test_existing_nodes_may_be_domains_that_no_new_node_reaches() -> None:
    batch = problem(web(12, spread(labels.ZONE)), pool("default", ON_DEMAND), nodes=[node("n-1")])
    assert sizing_rules(batch, solve(batch)).zones == {}
