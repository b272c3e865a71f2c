"""A scale-in on the sandbox: pods are removed, and consolidation moves the rest until nothing pays any more.

The load is that of Karpenter's own performance test (1,000 pods to 700): half of the pods have 0.9 CPU and 3100Mi, half
3.5 CPU and 28Gi, on on-demand types of up to 16 vCPU, with WhenEmptyOrUnderutilized, consolidateAfter 30s and a budget
of 100 %. The table shows how the price falls compared with a repack of the remaining pods by the engine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import DEPLOYMENTS, NODECLAIMS, PODS
from benchmarks.bill import Bill, bill, pool_of, price_of
from benchmarks.cluster import CONSOLIDATES, LABEL, node_pool, prepare
from benchmarks.load_run import loads
from benchmarks.milestones import followed
from benchmarks.running import Worker, running
from benchmarks.usage import Groups, Usage, Used, usage_table, used, worker_and_sandbox
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tenon.scheduling.model import Pool

MAX_CPUS = 16
STARTS_WITHIN = 400.0
WITHIN = 600.0
STILL_SECONDS = 90.0
"""Nothing has left or come for so many seconds: the cluster is still."""
GOAL_RATIO, GOAL_SECONDS, GOAL_DRAINED = 1.03, 180.0, 100
LOOK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Look:
    """The cluster some seconds after the scale-in."""

    seconds: float
    nodes: int
    leaving: int
    price: float


@dataclass(frozen=True, slots=True)
class Figures:
    """The results of one run."""

    before: int
    after: int
    looks: list[Look]
    seconds_to_goal: float | None
    """When the price was first at most `GOAL_RATIO` of a repack, and stayed so; None if never."""
    still_after: float | None
    """When the last node left or came; None if nodes still moved at the end."""
    drained: int
    """Pods that were moved: pods that ran at the end of the scale-in and were replaced."""
    bill: Bill
    used: dict[str, Used]
    cores: int


def pool() -> dict[str, Any]:
    """The NodePool, which consolidates."""
    body = node_pool(most_cpus=MAX_CPUS)
    body["spec"]["disruption"] = CONSOLIDATES
    return body


async def measure(sandbox: Sandbox, worker: Worker, before: int, after: int, within: float) -> Figures:
    """Create ``before`` pods and scale to ``after``."""
    kube = await Kube.connect(str(sandbox.kubeconfig), qps=1000, burst=1000)
    await prepare(sandbox, kube, pool())
    pods, _, watching = await followed(kube, LABEL)
    await asyncio.to_thread(sandbox.apply, [load.deployment() for load in loads(before)])
    await pods.until("Running", before, STARTS_WITHIN)
    figures = await scale_in(
        kube, await pool_of(sandbox, kube), worker_and_sandbox(sandbox, worker), before, after, within
    )
    for task in watching:
        task.cancel()
    await asyncio.gather(*watching, return_exceptions=True)
    await kube.close()
    return figures


async def scale_in(kube: Kube, bought: Pool, groups: Groups, before: int, after: int, within: float) -> Figures:
    """Scale the load to ``after`` pods, and watch for ``within`` seconds or until the cluster is still.

    ``bought`` has the instance types that the autoscaler buys.
    """
    with Usage(groups) as usage:
        began = time.monotonic()
        for load in loads(after):
            await kube.patch(DEPLOYMENTS, load.name, {"spec": {"replicas": load.pods}}, namespace="default")
        staying: set[str] = set()
        looks: list[Look] = []
        changed = began
        while time.monotonic() - began < within and time.monotonic() - changed < STILL_SECONDS:
            await asyncio.sleep(LOOK_SECONDS)
            if not staying and len(living := _living(await kube.list(PODS, label_selector=LABEL))) == after:
                staying = living
            claims = await kube.list(NODECLAIMS)
            look = _look(claims, bought, time.monotonic() - began)
            if not looks or (look.nodes, look.leaving) != (looks[-1].nodes, looks[-1].leaving):
                changed = time.monotonic()
                looks.append(look)
        still = time.monotonic() - changed >= STILL_SECONDS
    alive = await kube.list(NODECLAIMS)
    everything = await kube.list(PODS, label_selector=LABEL)  # a watch that broke may have missed deletions
    pods = [pod for pod in everything if not pod["metadata"].get("deletionTimestamp")]
    cost = await asyncio.to_thread(bill, alive, pods, bought)
    return Figures(
        before=before,
        after=after,
        looks=looks,
        seconds_to_goal=_reached(looks, GOAL_RATIO * cost.repacked_price),
        still_after=round(changed - began, 1) if still else None,
        drained=len(staying - _living(pods)),
        bill=cost,
        used={name: used(tally) for name, tally in usage.tallies.items()},
        cores=os.cpu_count() or 1,
    )


def _living(pods: Iterable[dict[str, Any]]) -> set[str]:
    """Return the UIDs of the pods that are not terminating."""
    return {pod["metadata"]["uid"] for pod in pods if not pod["metadata"].get("deletionTimestamp")}


def _look(claims: list[dict[str, Any]], bought: Pool, seconds: float) -> Look:
    launched = [claim for claim in claims if labels.INSTANCE_TYPE in claim["metadata"]["labels"]]
    leaving = sum(bool(claim["metadata"].get("deletionTimestamp")) for claim in claims)
    return Look(round(seconds, 1), len(claims), leaving, round(price_of(launched, bought.instance_types), 3))


def _reached(looks: list[Look], most: float) -> float | None:
    """Return since when the price stays at most ``most``."""
    since: float | None = None
    for look in looks:
        if look.price > most:
            since = None
        elif since is None:
            since = look.seconds
    return since


def as_tables(figures: Figures) -> list[Table]:
    """Format the run as tables."""
    cost = figures.bill
    total = Table(title=f"{figures.before} pods to {figures.after}, {figures.cores} cores")
    columns = ("nodes", "$/h", "repack: nodes", "$/h", "ratio (goal)", "s to the goal", "still after s", "pods drained")
    for column in columns:
        total.add_column(column, justify="right")
    total.add_row(
        f"{cost.nodes}",
        f"{cost.price:.3f}",
        f"{cost.repacked_nodes}",
        f"{cost.repacked_price:.3f}",
        f"{cost.ratio:.3f} ({GOAL_RATIO:g})",
        f"{'never' if figures.seconds_to_goal is None else f'{figures.seconds_to_goal:.0f}'} ({GOAL_SECONDS:g})",
        "moves on" if figures.still_after is None else f"{figures.still_after:.0f}",
        f"{figures.drained} ({GOAL_DRAINED})",
    )
    course = Table("seconds", "nodes", "leaving", "$/h", title="course")
    step = max(1, len(figures.looks) // 20)
    for look in figures.looks[::step]:
        course.add_row(f"{look.seconds:.0f}", f"{look.nodes}", f"{look.leaving}", f"{look.price:.3f}")
    last = figures.looks[-1].seconds if figures.looks else 0.0
    return [total, course, usage_table(figures.used, last, figures.cores)]


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.scale_in", description=__doc__)
    arguments.add_argument("--pods", type=int, default=1000, help="how many at first, half of them small")
    arguments.add_argument("--to", type=int, default=700, help="how many stay")
    arguments.add_argument("--within", type=float, default=WITHIN, help="seconds after which the run ends anyway")
    arguments.add_argument("--logs", type=Path, help="a folder to keep the logs in")
    arguments.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = arguments.parse_args()
    with running(Console(stderr=True), keep_logs=options.logs) as (sandbox, worker):
        figures = asyncio.run(measure(sandbox, worker, options.pods, options.to, options.within))
    if options.output == "json":
        print(json.dumps({**asdict(figures), "ratio": figures.bill.ratio}, indent=2))
        return
    for table in as_tables(figures):
        Console().print(table)


if __name__ == "__main__":
    main()
