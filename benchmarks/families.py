"""How fast small batches are planned and what they cost, by family of scenario, compared with first-fit of the same.

A family is 30 to 400 pods that state one kind of rule. First-fit, one pod after another in the order of the queue, is
the same engine without what makes plans cheap: how much longer the engine takes shows slow cases on any machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

from activities.clock import utc_now
from benchmarks.random_families import FAMILIES, Object, case
from cli.simulating.cluster import FiledCache, fill
from cli.simulating.files import read_catalogue_file
from tenon.kube.scheduler_config import NOTHING
from tenon.provisioning.solving import solve_with_buffers
from tenon.scheduling.bound.lower_bound import lower_bound, lower_bound_of_sizing
from tenon.scheduling.bound.sizing_rules import sizing_cost
from tenon.scheduling.engine import solve_by_first_fit
from tenon.scheduling.first_fit_baseline import Order
from tenon.scheduling.model import InstanceType, Plan, Problem
from tenon.scheduling.offerings.type_table import TypeTables
from tenon.simulation.decisions import PlanQuestion, decide
from tenon.simulation.defaults import fill_in
from tenon.simulation.objects import Objects
from tenon.simulation.reading import finish, read_text
from worker.cache.planning_view import PlanningView

CASES = 20
SLOW, SLOW_WITH_LIMITS = 30.0, 150.0
"""The command fails if a case takes more than this many times its first-fit. Where limits bind, the engine makes many
plans to find the one that places most pods."""
LEAST_MS = 2.0
"""First-fit counts as this at least when times are compared, because shorter times are mostly noise."""

Found = TypeVar("Found")


@dataclass(slots=True)
class Family:
    """The results of one family. Times are CPU milliseconds of a plan."""

    cases: int = 0
    pods: int = 0
    first: list[float] = field(default_factory=list)
    """The first plan for a list of instance types, with the tables over them."""
    kept_pods: list[float] = field(default_factory=list)
    """A later plan, as the worker makes it: with the tables kept."""
    first_fit: list[float] = field(default_factory=list)
    worst: float = 0.0
    """The most times that a case took as long as its first-fit."""
    worst_case: int = 0
    price: float = 0.0
    first_fit_price: float = 0.0
    """Prices are those of the cases in which both place the same number of pods."""
    bound: float = 0.0
    cost: float = 0.0
    cost_bound: float = 0.0
    """The cost of the same cases by the rules that nodes are sized by, and its bound."""
    leftover: int = 0
    first_fit_left: int = 0
    """Pods without a place."""


def measured(call: Callable[[], Found]) -> tuple[Found, float]:
    """Return the answer of a call, and its CPU milliseconds."""
    began = time.process_time()
    result = call()
    return result, 1000 * (time.process_time() - began)


def problem_for(manifests: Sequence[Object], types: Sequence[InstanceType]) -> Problem:
    """Read manifests as ``tenon simulate`` does, and return what the engine has to solve."""
    objects = Objects()
    read_text(objects, "case", "\n---\n".join(map(json.dumps, manifests)))
    finish(objects, utc_now())
    assert not objects.faults, objects.faults[0]
    fill_in(objects, expressions=False)
    cache = FiledCache(utc_now().timestamp(), NOTHING)
    pending, faults = fill(cache, objects, moving=False)
    assert not faults, faults[0]
    return decide(PlanningView(cache), PlanQuestion(pending.pods, types), time.perf_counter).problem


def most_times(name: str) -> float:
    """How many times as long as first-fit a case of the family may take."""
    return SLOW_WITH_LIMITS if name == "limits" else SLOW


def run(name: str, cases: int, types: Sequence[InstanceType]) -> Family:
    """Plan the cases of a family."""
    result = Family()
    for number in range(cases):
        _plan(result, number, problem_for(case(name, number), types))
    return result


def _plan(result: Family, number: int, problem: Problem) -> None:
    tables = TypeTables()
    _, first = measured(lambda: solve_with_buffers(problem, tables=TypeTables()))
    solve_with_buffers(problem, tables=tables)
    plan, survivors = measured(lambda: solve_with_buffers(problem, tables=tables))
    plain, first_fit = measured(lambda: solve_by_first_fit(problem, Order.OLDEST, tables))
    _count(result, problem, plan, plain)
    result.first.append(first)
    result.kept_pods.append(survivors)
    result.first_fit.append(first_fit)
    times = survivors / max(first_fit, LEAST_MS)
    if times > result.worst:
        result.worst, result.worst_case = times, number


def _count(result: Family, problem: Problem, plan: Plan, plain: Plan) -> None:
    result.cases += 1
    result.pods += len(problem.pods)
    result.leftover += len(plan.unschedulable)
    result.first_fit_left += len(plain.unschedulable)
    if len(plan.unschedulable) == len(plain.unschedulable):
        result.price += sum(claim.price for claim in plan.claims)
        result.first_fit_price += sum(claim.price for claim in plain.claims)
        result.bound += lower_bound(problem, left_out=plan.unschedulable)
        result.cost += sizing_cost(problem, plan)
        result.cost_bound += lower_bound_of_sizing(problem, plan)


def as_document(results: dict[str, Family]) -> dict[str, Any]:
    """Format the results as JSON."""
    return {name: asdict(result) for name, result in results.items()}


def as_table(results: dict[str, Family]) -> Table:
    """Format the results as a table."""
    table = Table(title="small batches, by family; CPU milliseconds of a plan")
    for heading in (
        "family",
        "cases",
        "pods",
        "first plan",
        "with kept tables",
        "most",
        "first-fit",
        "times first-fit, worst case",
        "price / first-fit",
        "price / bound",
        "sizing cost / bound",
        "without a place",
        "first-fit",
    ):
        table.add_column(heading, justify="left" if heading == "family" else "right")
    for name, result in results.items():
        table.add_row(
            name,
            str(result.cases),
            f"{result.pods:,}",
            f"{statistics.median(result.first):.1f}",
            f"{statistics.median(result.kept_pods):.1f}",
            f"{max(result.kept_pods):.1f}",
            f"{statistics.median(result.first_fit):.1f}",
            f"{result.worst:.1f} (case {result.worst_case})",
            _ratio(result.price, result.first_fit_price),
            _ratio(result.price, result.bound),
            _ratio(result.cost, result.cost_bound),
            f"{result.leftover:,}",
            f"{result.first_fit_left:,}",
        )
    return table


def _ratio(price: float, other: float) -> str:
    return f"{price / other:.3f}" if other else "-"


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.families", description=__doc__)
    parser.add_argument("--cases", type=int, default=CASES, help="cases of each family")
    parser.add_argument("--family", choices=sorted(FAMILIES), action="append", help="only these")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    options = parser.parse_args()
    console = Console(stderr=True)
    types, faults = read_catalogue_file(None)
    assert not faults
    results: dict[str, Family] = {}
    for name in options.family or FAMILIES:
        with console.status(f"planning {options.cases} cases of {name}"):
            results[name] = run(name, options.cases, types)
    if options.output == "json":
        print(json.dumps(as_document(results)))
    else:
        Console(width=None if sys.stdout.isatty() else 200).print(as_table(results))
    slow = {name: result for name, result in results.items() if result.worst > most_times(name)}
    for name, outcome in slow.items():
        print(f"{name}, case {outcome.worst_case}: {outcome.worst:.1f} times as long as first-fit", file=sys.stderr)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
