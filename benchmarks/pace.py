"""Whether workflows keep their pace while the cluster process plans: latencies before a plan of many pods, and during.

Workflows and activities run in the io process, plans in the cluster process, so that a long plan holds up no node. What
is measured is an update of a node's workflow, asked again and again: its round trip as a caller sees it, and from the
history how long its workflow tasks waited until the io process took them up. The pods are the reference's diverse mix,
pending before their NodePool is made; from then on one plan decides all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS
from benchmarks.cluster import LABEL, create_pending, node_class, node_pool
from benchmarks.lives import claim
from benchmarks.milestones import Milestones, claim_stages
from benchmarks.mixes import diverse
from benchmarks.plans import connect
from benchmarks.running import Worker, running
from sandbox.cluster import Sandbox
from tenon.lifecycle.messages.base import ActivityName
from tenon.lifecycle.messages.node import Disrupt
from workflows import names
from workflows.nodeclaim import NodeClaimWorkflow

PODS = 20_000
BEFORE_SECONDS = 30.0
PERIOD = 0.1
"""Seconds between two updates."""
WITHIN = 600.0
ASKED = "pace"
Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sample:
    """One latency, in seconds, and its start (Unix time)."""

    at: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Latencies:
    """Latency statistics in milliseconds."""

    count: int
    middle: float
    worst_hundredth: float
    worst: float


@dataclass(frozen=True, slots=True)
class Figures:
    """Latencies before and during the plan."""

    pods: int
    plan_seconds: float
    before: Latencies | None
    during: Latencies | None
    waited_before: Latencies | None
    """Latency of workflow tasks, from schedule to start."""
    waited_during: Latencies | None


def latencies(samples: Iterable[Sample], since: float, until: float) -> Latencies | None:
    """Summarize the samples that began in a time span; None if there are none."""
    found = sorted(one.seconds * 1000 for one in samples if since <= one.at < until)
    if not found:
        return None
    return Latencies(
        count=len(found),
        middle=round(statistics.median(found), 1),
        worst_hundredth=round(found[min(len(found) - 1, int(0.99 * len(found)))], 1),
        worst=round(found[-1], 1),
    )


def task_waits(events: Iterable[Any]) -> Iterator[Sample]:
    """Yield how long each workflow task of a history waited from schedule to start."""
    scheduled: dict[int, float] = {}
    for event in events:
        at = event.event_time.seconds + event.event_time.nanos / 1e9
        if event.HasField("workflow_task_scheduled_event_attributes"):
            scheduled[event.event_id] = at
        elif event.HasField("workflow_task_started_event_attributes"):
            since = scheduled.get(event.workflow_task_started_event_attributes.scheduled_event_id)
            if since is not None:
                yield Sample(since, at - since)


async def measure(sandbox: Sandbox, worker: Worker, count: int, console: Console) -> Figures:
    """Measure the latencies before and during one plan of all pods."""
    kube = await Kube.connect(str(sandbox.kubeconfig), qps=1000, burst=1000)
    client = await connect(sandbox)
    await asyncio.to_thread(sandbox.ec2().boot, never=True)
    await asyncio.to_thread(sandbox.stop_component, "kube-scheduler")
    await node_class(sandbox, kube)
    await kube.create(NODECLAIMS, claim(ASKED))
    console.print(f"creating {count:,} pods", highlight=False)
    await create_pending(kube, map(_labelled, diverse(count)))
    await asyncio.to_thread(worker.wait_idle)
    handle = client.get_workflow_handle(names.nodeclaim_id(sandbox.cluster_name, ASKED))
    samples: list[Sample] = []
    asking = asyncio.create_task(_ask(handle, samples))
    began = time.time()
    await asyncio.sleep(BEFORE_SECONDS)
    planned = Milestones(claim_stages)
    watching = asyncio.create_task(planned.watch(kube, NODECLAIMS))
    applied = time.time()
    await asyncio.to_thread(sandbox.apply, node_pool(most_cpus=64))
    started = await _plan_started(client, sandbox.cluster_name)
    await planned.until("created", 2, WITHIN)  # the queried one, and the plan's first
    ended = time.time()
    for task in (asking, watching):
        task.cancel()
    await asyncio.gather(asking, watching, return_exceptions=True)
    waits = list(task_waits((await handle.fetch_history()).events))
    await kube.close()
    return Figures(
        pods=count,
        plan_seconds=round(ended - started, 1),
        before=latencies(samples, began, applied),
        during=latencies(samples, started, ended),
        waited_before=latencies(waits, began, applied),
        waited_during=latencies(waits, started, ended),
    )


def _labelled(pod: Object) -> Object:
    metadata = pod["metadata"]
    kept = {key: metadata[key] for key in ("name", "namespace")}
    return {**pod, "metadata": {**kept, "labels": {**metadata["labels"], LABEL: "load"}}}


async def _ask(handle: WorkflowHandle[Any, Any], samples: list[Sample]) -> None:
    """Send updates to the node's workflow until cancelled. It refuses them because its node has not joined."""
    number = 0
    while True:
        number += 1
        at, began = time.time(), time.perf_counter()
        try:
            await handle.execute_update(NodeClaimWorkflow.disrupt, Disrupt(command=f"pace-{number}", reason="empty"))
        except RPCError:
            await asyncio.sleep(PERIOD)  # the workflow continues as new
            continue
        samples.append(Sample(at, time.perf_counter() - began))
        await asyncio.sleep(PERIOD)


async def _plan_started(client: Client, cluster: str) -> float:
    """Return when the cluster process started the plan.

    Raises:
        TimeoutError: the plan did not start in time.
    """
    handle = client.get_workflow_handle(names.provisioner_id(cluster))
    async with asyncio.timeout(WITHIN):
        while True:
            for one in (await handle.describe()).raw_description.pending_activities:
                running = one.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
                if one.activity_type.name == ActivityName.PLAN.value and running:
                    return one.last_started_time.seconds + one.last_started_time.nanos / 1e9
            await asyncio.sleep(0.1)


def as_table(seen: Figures) -> Table:
    """Format the run as a table."""
    table = Table(title=f"while {seen.pods:,} pods are planned in {seen.plan_seconds:g} s; milliseconds")
    for column in ("", "", "count", "p50", "p99", "worst"):
        table.add_column(column, justify="right" if column else "left")
    rows: Sequence[tuple[str, str, Latencies | None]] = (
        ("update, round trip", "before", seen.before),
        ("", "during", seen.during),
        ("workflow task, schedule to start", "before", seen.waited_before),
        ("", "during", seen.waited_during),
    )
    for what, when, one in rows:
        figures = (one.count, one.middle, one.worst_hundredth, one.worst) if one else ("none", "", "", "")
        table.add_row(what, when, *map(str, figures))
    return table


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.pace", description=__doc__)
    arguments.add_argument("--pods", type=int, default=PODS)
    arguments.add_argument("--logs", type=Path, help="a folder to keep the logs in")
    arguments.add_argument("-o", "--output", choices=("table", "json"), default="table")
    given = arguments.parse_args()
    console = Console(stderr=True)
    with running(console, keep_logs=given.logs) as (sandbox, worker):
        seen = asyncio.run(measure(sandbox, worker, given.pods, console))
    if given.output == "json":
        print(json.dumps(asdict(seen), indent=2))
        return
    Console().print(as_table(seen))


if __name__ == "__main__":
    main()
