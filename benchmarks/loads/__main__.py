"""Plans the public loads: cost over the best plan that is known and over the proven bound, and CPU time.

Costs and bounds are by the rules that nodes are sized by: burstable types count with their CPU baseline, each node has
a charge, and the bound knows limits of pods on a node and spread over zones. The recorded bounds know whole nodes too.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import asdict, dataclass, replace
from math import floor
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.families import measured
from benchmarks.loads.cases import (
    DIVISIBLE,
    KINDS,
    BestPlan,
    Load,
    instance_types,
    loads,
    read_best_plans,
    write_best_plans,
)
from benchmarks.loads.purchases import purchases_of
from benchmarks.loads.search import search, violations
from benchmarks.loads.whole_node_bound import whole_node_bound
from benchmarks.loads.whole_node_plan import plan_on_nodes
from tenon.provisioning.solving import solve_with_buffers
from tenon.scheduling.bound.lower_bound import lower_bound, lower_bound_of_sizing
from tenon.scheduling.bound.sizing_rules import sizing_cost
from tenon.scheduling.model import Plan, Problem
from tenon.scheduling.offerings.type_table import TypeTables

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
    """Over the recorded bound if that is higher and holds for the pods that the plan places."""
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
    bound = result.bound
    if best.purchases == purchases_of(problem, plan)[0].digest:
        bound = max(bound, best.bound)
    return Row(
        load=load.name,
        pods=result.pods,
        placed=result.placed,
        best_placed=best.placed,
        nodes=result.nodes,
        price=result.price,
        cost=result.cost,
        over_best=result.cost / best.cost,
        over_bound=result.cost / bound,
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
    if before is None or not before.purchases:
        return best
    return replace(best, bound=before.bound, bound_method=before.bound_method, purchases=before.purchases)


def bounded(load: Load, before: BestPlan | None, seconds: float) -> BestPlan:
    """Compute the bound over whole nodes. If the pods fit on its nodes, that may be a better plan."""
    problem = load.problem(instance_types())
    result, plan, _ = plan_of(problem)
    best = before if before is not None and not result.is_better_than(before) else result
    purchases, members = purchases_of(problem, plan)
    every_plan_may_buy_the_same = best.placed == len(problem.pods) and len(problem.pools) == 1
    bound = whole_node_bound(purchases, best.cost if every_plan_may_buy_the_same else result.cost, seconds)
    if bound.nodes is not None and not any(pool.limits for pool in problem.pools):
        other_plan = plan_on_nodes(problem, plan, purchases, members, bound.nodes, seconds)
        if other_plan is not None:
            candidate = as_best_plan(problem, other_plan, "the nodes of the bound")
            if candidate.is_better_than(best) and not violations(load, problem, other_plan):
                best = candidate
    if bound.cost < result.bound:
        return replace(best, bound=result.bound, bound_method=DIVISIBLE, purchases="")
    least = floor(bound.cost * 1e6) / 1e6
    return replace(best, bound=least, bound_method=bound.method, purchases=purchases.digest)


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
    parser.add_argument("--bounds", action="store_true", help="compute bounds over whole nodes, and write them down")
    parser.add_argument("--seconds", type=float, default=60.0, help="of the integer programs for each load")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    options = parser.parse_args()
    console = Console(stderr=True)
    chosen_loads = [load for load in loads(options.kind) if not options.load or load.name in options.load]
    if options.search or options.bounds:
        improve = searched if options.search else bounded
        for load in chosen_loads:
            with console.status(f"searching {load.name}"):
                best = improve(load, _known_plans().get(load.name), options.seconds)
            print(load.name, best, file=sys.stderr)
            write_best_plans({**_known_plans(), load.name: best})  # another run may have written
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
