"""Plans the public loads: cost over the best plan that is known and over the proven bound, and CPU time.

Costs and bounds are by the rules that nodes are sized by: burstable types count with their CPU baseline, each node has
a charge, and the bound knows limits of pods on a node and spread over zones.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.families import measured
from benchmarks.loads.cases import KINDS, BestPlan, Load, instance_types, loads, read_best_plans, write_best_plans
from benchmarks.loads.search import search, violations
from tenon.provisioning.solving import solve_with_buffers
from tenon.scheduling.bound import lower_bound, lower_bound_of_sizing
from tenon.scheduling.model import Plan, Problem
from tenon.scheduling.sizing_rules import sizing_cost
from tenon.scheduling.type_table import TypeTables

NEARLY = 1e-6


@dataclass(frozen=True, slots=True)
class Row:
    """The plan of one load. ``milliseconds`` are CPU time with the tables that a worker keeps."""

    load: str
    pods: int
    placed: int
    best_placed: int
    nodes: int
    price: float
    cost: float
    over_best: float
    over_bound: float
    price_over_bound: float
    """Price over the bound of the price alone."""
    milliseconds: float


def plan_of(problem: Problem, method: str = "the engine's plan") -> tuple[BestPlan, Plan, float]:
    """Return the engine's plan for a problem, and its CPU milliseconds."""
    tables = TypeTables()
    solve_with_buffers(problem, tables=tables)
    plan, milliseconds = measured(lambda: solve_with_buffers(problem, tables=tables))
    return as_best_plan(problem, plan, method), plan, milliseconds


def as_best_plan(problem: Problem, plan: Plan, method: str) -> BestPlan:
    """Return the figures of a plan."""
    return BestPlan(
        pods=len(problem.pods),
        placed=len(problem.pods) - len(plan.unschedulable),
        nodes=len(plan.claims),
        price=round(sum(claim.price for claim in plan.claims), 6),
        cost=round(sizing_cost(problem, plan), 6),
        bound=round(lower_bound_of_sizing(problem, plan), 6),
        method=method,
    )


def row_of(load: Load, best: BestPlan) -> Row:
    """Plan a load, and compare the plan."""
    problem = load.problem(instance_types())
    result, plan, milliseconds = plan_of(problem)
    price_bound = lower_bound(problem, left_out=plan.unschedulable)
    return Row(
        load=load.name,
        pods=result.pods,
        placed=result.placed,
        best_placed=best.placed,
        nodes=result.nodes,
        price=result.price,
        cost=result.cost,
        over_best=result.cost / best.cost,
        over_bound=result.cost / result.bound,
        price_over_bound=result.price / price_bound,
        milliseconds=milliseconds,
    )


def as_table(rows: list[Row]) -> Table:
    """Format the rows as a table, with the medians and the worst of each kind at the end."""
    table = Table(title="public loads: cost over the best known plan and over the bound; CPU milliseconds of a plan")
    for heading in ("load", "pods", "placed, best", "nodes", "$/h", "cost", "over best", "over bound", "CPU ms"):
        table.add_column(heading, justify="left" if heading == "load" else "right")
    for row in rows:
        table.add_row(
            row.load,
            str(row.pods),
            f"{row.placed}, {row.best_placed}",
            str(row.nodes),
            f"{row.price:.3f}",
            f"{row.cost:.3f}",
            f"{row.over_best:.3f}" if row.placed == row.best_placed else "-",
            f"{row.over_bound:.3f}",
            f"{row.milliseconds:.0f}",
        )
    for kind, figures in summary(rows).items():
        table.add_section()
        for name, pick in (("median", 0), ("worst", 1)):
            table.add_row(
                f"{kind}, {name}",
                *[""] * 5,
                *(f"{figures[key][pick]:.3f}" for key in ("over_best", "over_bound")),
                f"{figures['milliseconds'][pick]:.0f}",
            )
    return table


def summary(rows: list[Row]) -> dict[str, dict[str, tuple[float, float]]]:
    """Return the median and the worst of each kind and of all. Loads with other numbers of pods have no ratio to the
    best plan.
    """
    kinds = {kind: [row for row in rows if row.load.startswith(kind)] for kind in KINDS}
    parts = {**{kind: part for kind, part in kinds.items() if part}, "all": rows}
    return {kind: _figures(part) for kind, part in parts.items()}


def _figures(rows: list[Row]) -> dict[str, tuple[float, float]]:
    columns = {
        "over_best": [row.over_best for row in rows if row.placed == row.best_placed] or [0.0],
        "over_bound": [row.over_bound for row in rows],
        "price_over_bound": [row.price_over_bound for row in rows],
        "milliseconds": [row.milliseconds for row in rows],
    }
    return {name: (statistics.median(values), max(values)) for name, values in columns.items()}


def searched(load: Load, before: BestPlan | None, seconds: float) -> BestPlan:
    """Search for a better plan than the best that is known."""
    problem = load.problem(instance_types())
    best = plan_of(problem)[0]
    best = before if before is not None and not best.is_better_than(before) else best
    for plan, method in search(problem, seconds):
        candidate = as_best_plan(problem, plan, method)
        if candidate.is_better_than(best) and not violations(load, problem, plan):
            best = candidate
    return best


def main() -> int:
    """Run the command. Return 1 if a plan is better than the best known one, which is then out of date."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loads", description=__doc__)
    parser.add_argument("--kind", choices=sorted(KINDS), action="append", default=[], help="only these loads")
    parser.add_argument("--load", action="append", default=[], metavar="NAME", help="only this one, such as mixed-07")
    parser.add_argument(
        "--search",
        action="store_true",
        help="look for better plans with an integer program over many packings, and write them down",
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="of the integer program for each load")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    options = parser.parse_args()
    console = Console(stderr=True)
    chosen_loads = [load for load in loads(options.kind) if not options.load or load.name in options.load]
    if options.search:
        plans = _known_plans()
        for load in chosen_loads:
            with console.status(f"searching {load.name}"):
                plans[load.name] = searched(load, plans.get(load.name), options.seconds)
            print(load.name, plans[load.name], file=sys.stderr)
            write_best_plans(plans)
        return 0
    best_plans = read_best_plans()
    rows = []
    for load in chosen_loads:
        with console.status(f"planning {load.name}"):
            rows.append(row_of(load, best_plans[load.name]))
    if options.output == "json":
        print(json.dumps(_as_document(rows), indent=2))
    else:
        Console(width=None if sys.stdout.isatty() else 140).print(as_table(rows))
    better = [row for row in rows if (-row.placed, row.over_best) < (-row.best_placed, 1 - NEARLY)]
    for row in better:
        print(f"{row.load}: better than the best plan that is known; run --search to record it", file=sys.stderr)
    return 1 if better else 0


def _known_plans() -> dict[str, BestPlan]:
    try:
        return read_best_plans()
    except (OSError, ValueError):
        return {}


def _as_document(rows: list[Row]) -> dict[str, Any]:
    return {"loads": [asdict(row) for row in rows], "summary": summary(rows)}


if __name__ == "__main__":
    sys.exit(main())
