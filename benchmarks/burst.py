"""A burst on the sandbox: small and large pods created at once, with no boot delay, until all of them run.

The load is that of Karpenter's own performance test: 500 pods of 0.9 CPU and 3100Mi, 500 of 3.5 CPU and 28Gi, on types
of up to 16 vCPU. Beside the time: nodes, their price against a repack of the same pods by the engine, and what every
process used, so that the table shows what the time was spent on.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS
from benchmarks.bill import Bill, bill, pool_of
from benchmarks.cluster import node_pool, prepare
from benchmarks.comparison import alternation
from benchmarks.comparison.sample import Load
from benchmarks.load_run import load_run
from benchmarks.milestones import CLAIM_STAGES, POD_STAGES, Milestones
from benchmarks.plans import connect, plans
from benchmarks.running import Worker, sandboxed, started
from benchmarks.strain import strained
from benchmarks.usage import Used, usage_table, worker_and_sandbox
from sandbox.cluster import Sandbox

SLOWEST, FAST, DEAREST = 40.0, 30.0, 1.03
"""The goals: upstream's seconds, the targeted seconds, and the price over a repack."""
MAX_CPUS = 16
KEPT = 0.7
"""The part of the pods that stays after a scale-in."""


@dataclass(frozen=True, slots=True)
class Stage:
    """When the first, median and last object reached a stage, in seconds since the creation."""

    stage: str
    count: int
    first: float
    middle: float
    last: float


@dataclass(frozen=True, slots=True)
class Planned:
    """One plan of the worker."""

    pods: int
    nodes: int
    solve_seconds: float
    seconds: float
    """Includes reading the cluster and writing the NodeClaims."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The results of one run."""

    pods: int
    seconds: float
    stages: list[Stage]
    plans: list[Planned]
    bill: Bill
    refused: int
    """Pods that a kubelet refused because the node was full. Their owner replaced them."""
    used: dict[str, Used]
    cores: int


async def measure(sandbox: Sandbox, worker: Worker, count: int, logs: Path | None = None) -> Figures:
    """Create the pods and wait until all of them run."""
    kube = await Kube.connect(str(sandbox.kubeconfig), qps=1000, burst=1000)
    await prepare(sandbox, kube, node_pool(most_cpus=MAX_CPUS))
    async with load_run(sandbox, kube, worker_and_sandbox(sandbox, worker), count) as run:
        output = await plans(await connect(sandbox), sandbox.cluster_name)
        alive = await kube.list(NODECLAIMS)
        pool = await pool_of(sandbox, kube)
        cost = await asyncio.to_thread(bill, alive, list(run.pods.objects.values()), pool)
        requests = await kube.request("GET", "/metrics")
        if logs is not None:
            await asyncio.to_thread(_keep, logs, requests)
    await kube.close()
    return Figures(
        pods=count,
        seconds=run.seconds,
        stages=[
            *stages("pods", run.pods, POD_STAGES, run.began),
            *stages("NodeClaims", run.claims, CLAIM_STAGES, run.began),
        ],
        plans=[
            Planned(item.result.pods, len(item.result.claims), item.result.solve_seconds, item.seconds)
            for item in output
            if item.result.pods
        ],
        bill=cost,
        refused=len(await asyncio.to_thread(sandbox.ec2().rejections)),
        used=run.used,
        cores=os.cpu_count() or 1,
    )


def _keep(logs: Path, requests: bytes) -> None:
    logs.mkdir(parents=True, exist_ok=True)
    (logs / "kube-apiserver.metrics").write_bytes(requests)


def stages(subject: str, milestones: Milestones, names: tuple[str, ...], began: float) -> list[Stage]:
    """Return the stages that at least one object reached."""
    result = [(name, milestones.spread(name, began)) for name in names]
    return [Stage(f"{subject} {name}", milestones.count(name), *spread) for name, spread in result if spread]


def as_tables(figures: Figures) -> list[Table]:
    """Format the run as tables."""
    cost = figures.bill
    colour = "green" if figures.seconds < FAST else "yellow" if figures.seconds <= SLOWEST else "red"
    total = Table(title=f"{figures.pods} pods at once, {figures.cores} cores")
    for column in ("seconds (goal)", "nodes", "$/h", "repack: nodes", "$/h", "ratio (goal)", "bound $/h", "refused"):
        total.add_column(column, justify="right")
    total.add_row(
        f"[{colour}]{figures.seconds:.1f}[/] ({FAST:g})",
        f"{cost.nodes}",
        f"{cost.price:.3f}",
        f"{cost.repacked_nodes}",
        f"{cost.repacked_price:.3f}",
        f"[{'green' if cost.ratio <= DEAREST else 'red'}]{cost.ratio:.3f}[/] ({DEAREST:g})",
        f"{cost.bound:.3f}",
        f"[{'red' if figures.refused else 'green'}]{figures.refused}[/]",
    )
    times = Table(title="seconds since the creation")
    for column in ("", "count", "first", "middle", "last"):
        times.add_column(column, justify="left" if not column else "right")
    for stage in figures.stages:
        times.add_row(
            stage.stage, f"{stage.count}", *(f"{value:.1f}" for value in (stage.first, stage.middle, stage.last))
        )
    table = Table("pods", "nodes", "solve s", "plan s", title="plans")
    for plan in figures.plans:
        table.add_row(f"{plan.pods}", f"{plan.nodes}", f"{plan.solve_seconds:.2f}", f"{plan.seconds:.2f}")
    return [total, times, table, usage_table(figures.used, figures.seconds, figures.cores)]


def as_document(figures: Figures) -> dict[str, Any]:
    """Format the run as JSON."""
    return {**asdict(figures), "ratio": figures.bill.ratio}


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.burst", description=__doc__)
    arguments.add_argument("--pods", type=int, default=1000, help="how many, half of them small")
    arguments.add_argument("--beside", choices=("upstream",), help="compare with upstream Karpenter and no autoscaler")
    arguments.add_argument("--runs", type=int, default=1, help="how often each is measured with --beside")
    arguments.add_argument("--scale-in", action="store_true", help="scale in afterwards with --beside: 1,000 to 700")
    arguments.add_argument(
        "--late-watches", type=float, default=0.0, metavar="SECONDS", help="deliver watches of pods so much later"
    )
    arguments.add_argument("--readers", type=int, default=0, help="how many processes list all pods without end")
    arguments.add_argument("--logs", type=Path, help="a folder to keep the logs in")
    arguments.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = arguments.parse_args()
    if options.beside:
        load = Load(options.pods, round(options.pods * KEPT) if options.scale_in else None)
        alternation.main(load, options.runs, options.logs, options.output)
        return
    with (
        sandboxed(Console(stderr=True), keep_logs=options.logs) as sandbox,
        strained(sandbox, options.late_watches, options.readers) as settings,
    ):
        worker = Worker(sandbox, **settings)
        with started(worker):
            figures = asyncio.run(measure(sandbox, worker, options.pods, options.logs))
    if options.output == "json":
        print(json.dumps(as_document(figures), indent=2))
        return
    for table in as_tables(figures):
        Console().print(table)


if __name__ == "__main__":
    main()
