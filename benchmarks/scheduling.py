"""How fast, how cheap and with how much memory the engine plans: one table, with the goals beside.

Each case runs in a fresh process. The time is that of the decision alone, from pods as the engine reads them to the
plan: the middle one of a few runs. The memory is the process's peak by then, the objects it was fed with included.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.cases import Case, chosen
from benchmarks.catalogue import ec2_pool, reference_pool
from benchmarks.mixes import MIXES, SEED, scheduling_pods
from tenon.scheduling.bound.lower_bound import lower_bound
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Problem

MAX_SECONDS = 3.0
"""Seconds of total run time after which a case is not repeated."""
RUNS = 5


@dataclass(frozen=True, slots=True)
class Figures:
    """The measurements of one case. ``refused`` counts pods with a rule that the engine does not support."""

    placed: int
    refused: int
    nodes: int
    price: float
    bound: float
    seconds: float
    megabytes: float
    reason: str = ""
    """Why the first unschedulable pod has no place."""

    @property
    def ratio(self) -> float:
        """Price divided by the lower bound of the placed pods."""
        return self.price / self.bound if self.bound else 0.0


def measure(case: Case, seed: int, catalogue: Path | None) -> Figures:
    """Run one case in this process."""
    pods = scheduling_pods(MIXES[case.mix](case.pods, seed))
    pool = ec2_pool(catalogue) if case.mix == "seed" else reference_pool()
    problem = Problem(pods, [pool], ignore_preferences=case.ignore_preferences)
    times: list[float] = []
    while len(times) < RUNS and sum(times) < MAX_SECONDS:
        began = time.perf_counter()
        plan = solve(problem)
        times.append(time.perf_counter() - began)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Figures(
        placed=case.pods - len(plan.unschedulable),
        refused=sum(1 for pod in pods if pod.unsupported),
        nodes=len(plan.claims),
        price=sum(claim.price for claim in plan.claims),
        bound=lower_bound(problem, left_out=plan.unschedulable),
        seconds=statistics.median(times),
        megabytes=peak,
        reason=next(map(str, plan.unschedulable.values()), ""),
    )


def apart(case: Case, seed: int, catalogue: Path | None) -> Figures:
    """Run one case in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.scheduling", "--one", json.dumps(asdict(case)), "--seed", str(seed)]
    done = subprocess.run(
        [*command, *(["--catalog", str(catalogue)] if catalogue else [])], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"case {case.name} with {case.pods} pods failed:\n{done.stderr}")
    return Figures(**json.loads(done.stdout))


def as_document(case: Case, figures: Figures) -> dict[str, Any]:
    """Format a row as JSON."""
    goals = {
        name: value for name in ("speed", "ratio", "price", "nodes", "megabytes") if (value := getattr(case, name))
    }
    return {
        "mix": case.name,
        "pods": case.pods,
        **asdict(figures),
        "ratio": figures.ratio,
        "podsPerSecond": case.pods / figures.seconds,
        "upstream": {"podsPerSecond": case.upstream_speed, "ratio": case.upstream_ratio},
        "goals": goals,
    }


def as_table(rows: list[tuple[Case, Figures]], seed: int) -> Table:
    """Format the rows as a table: green if a goal is met, red if it is missed."""
    table = Table(
        title=f"tenon/scheduling, seed {seed}: figure (goal); upstream is Karpenter v1.14.1", show_lines=False
    )
    for column in ("mix", "pods", "placed", "nodes", "$/h", "bound $/h", "ratio", "upstream", "seconds", "pods/s"):
        table.add_column(column, justify="left" if column == "mix" else "right")
    table.add_column("upstream", justify="right")
    table.add_column("peak MB", justify="right")
    for case, observations in rows:
        speed = case.pods / observations.seconds
        complete = observations.placed == case.pods
        table.add_row(
            case.name,
            f"{case.pods:,}",
            f"{observations.placed:,}"
            if complete
            else f"[yellow]{observations.placed:,}[/] ({observations.refused:,} refused)",
            _judged(
                f"{observations.nodes:,}", case.nodes, f"{case.nodes}", observations.nodes <= case.nodes and complete
            ),
            _judged(
                f"{observations.price:,.3f}",
                case.price,
                f"{case.price:g}",
                observations.price <= case.price + 1e-9 and complete,
            ),
            f"{observations.bound:,.3f}",
            _judged(
                f"{observations.ratio:.3f}",
                case.ratio,
                f"{case.ratio:.3f}",
                observations.ratio <= case.ratio and complete,
            ),
            f"{case.upstream_ratio:.3f}" if case.upstream_ratio else "-",
            f"{observations.seconds:.3f}",
            _judged(f"{speed:,.0f}", case.speed, f"{case.speed:,}", speed >= case.speed and complete),
            f"{case.upstream_speed:,}" if case.upstream_speed else "-",
            _judged(
                f"{observations.megabytes:.0f}",
                case.megabytes,
                f"{case.megabytes:g}",
                observations.megabytes < case.megabytes,
            ),
        )
    return table


def _judged(text: str, goal: float, goal_text: str, met: bool) -> str:
    return f"[{'green' if met else 'red'}]{text}[/] ({goal_text})" if goal else text


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.scheduling", description=__doc__)
    arguments.add_argument(
        "--mix", action="append", choices=sorted(MIXES), default=[], help="only this one; repeatable"
    )
    arguments.add_argument("--pods", type=int, help="only this size")
    arguments.add_argument("--seed", type=int, default=SEED, help="of the reference's draws")
    arguments.add_argument(
        "--catalog", type=Path, help="EC2 catalogue in JSON for the mix seed, instead of the built-in one"
    )
    arguments.add_argument("-o", "--output", choices=("table", "json"), default="table")
    arguments.add_argument("--one", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.one:
        print(json.dumps(asdict(measure(Case(**json.loads(options.one)), options.seed, options.catalog))))
        return
    console = Console(stderr=True)
    cases = chosen(options.mix, options.pods)
    rows: list[tuple[Case, Figures]] = []
    for case in cases:
        with console.status(f"{case.name}, {case.pods:,} pods"):
            rows.append((case, apart(case, options.seed, options.catalog)))
    if options.output == "json":
        print(json.dumps([as_document(case, figures) for case, figures in rows], indent=2))
        return
    out = Console(width=None if sys.stdout.isatty() else 160)
    out.print(as_table(rows, options.seed))
    for case, figures in rows:
        if pods := case.pods - figures.placed:
            out.print(f"{case.name}, {case.pods:,}: {pods:,} without a place; the first: {figures.reason}")


if __name__ == "__main__":
    main()
