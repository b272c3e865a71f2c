"""The public loads: each is the same every time, and its best plan is a plan that the bound allows."""

from __future__ import annotations

import json

import pytest

from benchmarks.loads.__main__ import Row, as_table, summary
from benchmarks.loads.cases import BEST_PLANS, KINDS, BestPlan, Load, loads
from benchmarks.loads.search import search
from tenon.scheduling.bound.sizing_rules import sizing_cost
from tests.tenon.scheduling.builders import CATALOG

ENTRIES = json.loads(BEST_PLANS.read_text())["loads"]


def test_there_are_sixty_loads_and_each_has_a_best_plan() -> None:
    names = [load.name for load in loads()]
    assert len(names) == len(set(names)) == sum(KINDS.values()) == 60
    assert set(ENTRIES) == set(names)


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_no_best_plan_costs_less_than_its_bound(name: str) -> None:
    best = BestPlan(**ENTRIES[name])
    assert 0 < best.bound <= best.cost
    assert best.placed <= best.pods
    assert best.nodes <= best.placed
    assert best.method


def test_more_pods_come_before_a_lower_cost() -> None:
    best = BestPlan(pods=10, placed=9, nodes=2, price=1.0, cost=1.04, bound=1.0, method="")
    fewer = BestPlan(pods=10, placed=8, nodes=1, price=0.5, cost=0.52, bound=0.5, method="")
    cheaper = BestPlan(pods=10, placed=9, nodes=1, price=1.0, cost=1.02, bound=1.0, method="")
    assert best.is_better_than(fewer)
    assert cheaper.is_better_than(best)
    assert not best.is_better_than(best)


@pytest.mark.parametrize("load", [Load("spread", 0), Load("limits", 0)], ids=["spread", "limits"])
def test_the_search_finds_plans(load: Load) -> None:
    problem = load.problem(CATALOG)
    for plan, method in search(problem, seconds=1.0):
        assert method
        assert sizing_cost(problem, plan) > 0
        assert len(plan.unschedulable) < len(problem.pods)


def test_loads_that_place_other_numbers_of_pods_have_no_ratio_to_the_best() -> None:
    rows = [
        Row("mixed-00", 400, 400, 400, 10, 4.0, 4.2, 1.01, 1.03, 1.1, 50.0),
        Row("limits-00", 40, 30, 31, 2, 1.0, 1.04, 0.9, 1.2, 1.3, 100.0),
    ]
    assert summary(rows)["all"]["over_best"] == (1.01, 1.01)
    assert as_table(rows).row_count > 2
