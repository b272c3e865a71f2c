"""15,000 pending pods at once on the sandbox: the worker's memory, and that it recovers when it is killed meanwhile.

The pods are made while the worker is down, and kube-scheduler too, whose refusal is written for it: so that they are
all there when the worker looks, whatever the machine. The instances never join: what is asked is whether every pod gets
its place in exactly one NodeClaim, every NodeClaim exactly one instance, and how much memory that takes. With ``--kill
cluster`` the cluster process is ended by kill -9 once a quarter of the NodeClaims is there, with ``--kill worker`` all
processes; the worker is started again as by a kubelet.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from activities.kubernetes.client import Kube
from benchmarks.bill import pending, pool_of
from benchmarks.cluster import LABEL, Load, create_pending, node_pool, prepare
from benchmarks.milestones import Milestones, followed
from benchmarks.plans import connect, plans
from benchmarks.running import Worker, running
from benchmarks.usage import Usage, Used, usage_table, used, worker_and_sandbox
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tenon.kube.claim_record import instance_id_of
from tenon.kube.planned_pods import parse_planned
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Problem

PODS = 15_000
WITHIN = 900.0
LIMIT = 1024.0
"""Memory limit of the worker's processes, in MiB."""
SETTLED = 10.0
"""Seconds without a change after which the run is over."""
SMALLEST, LARGEST = 32, 48
"""Range of vCPUs of the instance types."""
Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether every pod has a NodeClaim, and nothing was bought twice."""

    pods: int
    unserved: int
    """Pods without a NodeClaim."""
    twice: int
    """Pods with more than one NodeClaim."""
    claims: int
    without_instance: int
    extra_instances: int
    """Instances that no NodeClaim names."""

    @property
    def sound(self) -> bool:
        """True if nothing is missing and nothing is superfluous."""
        return not (self.unserved or self.twice or self.without_instance or self.extra_instances)


@dataclass(frozen=True, slots=True)
class Figures:
    """The results of one run."""

    killed: str
    starts: int
    """Number of worker starts."""
    planned_seconds: float
    """Seconds until the last NodeClaim was written."""
    launched_seconds: float
    """Seconds until the last NodeClaim was launched."""
    plans: list[int]
    """Number of pods in each plan."""
    price_nodes: int
    """Number of nodes in a repack of all pods."""
    verdict: Verdict
    used: dict[str, Used]


def judge(pods: Iterable[str], claims: Iterable[Object], instances: Iterable[Object]) -> Verdict:
    """Compare the pods (by UID) with the plans in the NodeClaims and with EC2's live instances.

    A NodeClaim names its instance by its provider ID. The tag that names the NodeClaim comes later if its instance was
    launched with others.
    """
    expectation = set(pods)
    own: list[str] = []
    bought: Counter[str] = Counter()
    for claim in claims:
        own.append(instance_id_of((claim.get("status") or {}).get("providerID") or ""))
        text = (claim["metadata"].get("annotations") or {}).get(labels.PLANNED_PODS) or ""
        bought.update(entry.uid for entry in parse_planned(text))
    alive = {instance["id"] for instance in instances if instance["state"] not in ("shutting-down", "terminated")}
    return Verdict(
        pods=len(expectation),
        unserved=len(expectation - bought.keys()),
        twice=sum(1 for uid in expectation if bought[uid] > 1),
        claims=len(own),
        without_instance=sum(1 for item in own if item not in alive),
        extra_instances=len(alive - set(own)),
    )


async def measure(sandbox: Sandbox, worker: Worker, count: int, kill: str, console: Console) -> Figures:
    """Create the pods, kill the chosen process and wait until every pod has a NodeClaim and an instance."""
    kube = await Kube.connect(str(sandbox.kubeconfig), qps=1000, burst=1000)
    sandbox.ec2().boot(never=True)
    await prepare(sandbox, kube, node_pool(least_cpus=SMALLEST, most_cpus=LARGEST))
    pool = await pool_of(sandbox, kube)
    await asyncio.to_thread(worker.stop)
    await asyncio.to_thread(sandbox.stop_component, "kube-scheduler")
    console.print(f"creating {count:,} pods", highlight=False)
    await create_pending(kube, Load("load", count, "500m", "1Gi").plain_pods())
    pods, claims, watching = await followed(kube, LABEL)
    await pods.until("refused by kube-scheduler", count, WITHIN)
    console.print(f"{count:,} pods wait; starting the worker", highlight=False)
    with Usage(worker_and_sandbox(sandbox, worker)) as usage:
        began = time.monotonic()
        await asyncio.to_thread(worker.start)
        if kill:
            await claims.until("created", count // 4 // (2 * LARGEST), WITHIN)
            console.print(f"kill -9 after {time.monotonic() - began:.0f} s", highlight=False)
            worker.kill("" if kill == "worker" else kill)
        await _settled(pods, claims, count)
    verdict = judge(pods.objects, claims.objects.values(), sandbox.ec2().instances())
    repacked = await asyncio.to_thread(solve, Problem(pending(pods.objects.values()), [pool]))
    output = await plans(await connect(sandbox), sandbox.cluster_name)
    for task in watching:
        task.cancel()
    await asyncio.gather(*watching, return_exceptions=True)
    await kube.close()

    def last(milestones: Milestones, stage: str) -> float:
        spread = milestones.spread(stage, began)
        return round(spread[2], 1) if spread else 0.0

    return Figures(
        killed=kill,
        starts=worker.starts,
        planned_seconds=last(claims, "created"),
        launched_seconds=last(claims, "Launched"),
        plans=[item.result.pods for item in output if item.result.pods],
        price_nodes=len(repacked.claims),
        verdict=verdict,
        used={name: used(tally) for name, tally in usage.tallies.items()},
    )


async def _settled(pods: Milestones, claims: Milestones, count: int) -> None:
    """Wait until every pod is planned, every NodeClaim is launched, and nothing has changed for a while.

    A timeout is not an error, because the table shows what is missing.
    """
    deadline = time.monotonic() + WITHIN
    quiet_since, before = time.monotonic(), (0, 0)
    while time.monotonic() < deadline:
        await asyncio.sleep(1.0)
        now = (len(claims.objects), claims.count("Launched"))
        if now != before:
            quiet_since, before = time.monotonic(), now
        quiet = time.monotonic() - quiet_since
        whole = judge(pods.objects, claims.objects.values(), ())
        if quiet > SETTLED and not whole.unserved and now[1] >= now[0] and len(pods.objects) == count:
            return


def as_tables(figures: Figures) -> list[Table]:
    """Format the run as tables."""
    verdict = figures.verdict
    title = f"{verdict.pods:,} pods at once" + (f", {figures.killed} killed" if figures.killed else "")
    total = Table("", "", title=title, show_header=False)
    rows: list[tuple[str, str]] = [
        ("seconds from the worker's start until the last NodeClaim was written", f"{figures.planned_seconds:.0f}"),
        ("... the last was launched", f"{figures.launched_seconds:.0f}"),
        ("starts of the worker", f"{figures.starts}"),
        ("plans, by pods", ", ".join(f"{pods:,}" for pods in figures.plans)),
        ("NodeClaims (a repack of all)", f"{verdict.claims} ({figures.price_nodes})"),
        ("pods without a NodeClaim", _bad(verdict.unserved)),
        ("pods with more than one", _bad(verdict.twice)),
        ("NodeClaims without an instance", _bad(verdict.without_instance)),
        ("instances too many", _bad(verdict.extra_instances)),
    ]
    peak = figures.used["worker"].peak_megabytes
    colour = "green" if peak < LIMIT else "red"
    rows.append(("peak memory of the worker, MiB (limit)", f"[{colour}]{peak:.0f}[/] ({LIMIT:g})"))
    for subject, value in rows:
        total.add_row(subject, value)
    longest = max(figures.launched_seconds, 1.0)
    return [total, usage_table(figures.used, longest, os.cpu_count() or 1)]


def _bad(count: int) -> str:
    return f"[{'red' if count else 'green'}]{count}[/]"


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.pending", description=__doc__)
    arguments.add_argument("--pods", type=int, default=PODS)
    arguments.add_argument("--kill", choices=("", "cluster", "io", "worker"), default="", help="what to kill -9")
    arguments.add_argument("--logs", type=Path, help="a folder to keep the logs in")
    arguments.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = arguments.parse_args()
    console = Console(stderr=True)
    with running(console, keep_logs=options.logs) as (sandbox, worker):
        figures = asyncio.run(measure(sandbox, worker, options.pods, options.kill, console))
    if options.output == "json":
        print(json.dumps(asdict(figures) | {"sound": figures.verdict.sound}, indent=2))
        return
    for table in as_tables(figures):
        Console().print(table)


if __name__ == "__main__":
    main()
