"""Measures one burst: the floor, upstream, or Tenon, each in a sandbox of its own."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS
from benchmarks import bill, cluster
from benchmarks.comparison import floor, kwok_types, upstream
from benchmarks.comparison.api_requests import Request, has_watch, read_requests
from benchmarks.comparison.histories import PerNode, per_node
from benchmarks.load_run import LoadRun, load_run
from benchmarks.plans import connect
from benchmarks.running import Worker, sandboxed, started
from benchmarks.scale_in import WITHIN, Figures, scale_in
from benchmarks.usage import Groups, Used, of_worker, with_sandbox
from sandbox import audit
from sandbox.cluster import Sandbox
from tenon.scheduling.model import Pool

MAX_CPUS = 16
AUTOSCALER = "worker"
"""The group of the autoscaler's processes, for both autoscalers."""
OWNERS = "nodepools", "nodeclaims"
OWNERS_WATCHED_WITHIN = 120.0
"""Seconds. The garbage collector looks every 30 seconds for new CRDs."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The results of one burst."""

    seconds: float
    running: int
    """Pods that ran at the end."""
    nodes: int
    refused: int
    """Pods that a kubelet refused because the node was full. Their owner replaced them."""
    used: Mapping[str, Used]
    requests: Counter[Request]
    bill: bill.Bill | None = None
    """The floor buys nothing."""
    per_node: PerNode | None = None
    scale_in: Figures | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """What every contender gets."""

    pods: int
    then: int | None = None
    """Pods after a scale-in that follows the burst. Without an autoscaler nothing follows."""


def measure_floor(console: Console, load: Load, logs: Path | None) -> Sample:
    """Run the burst without an autoscaler."""
    with sandboxed(console, audit=True, keep_logs=logs) as sandbox:
        sandbox.stop_component("temporal")

        async def measure() -> Sample:
            kube = await _connect(sandbox)

            async def create_nodes(observations: Any) -> None:
                await floor.create_nodes_when_refused(kube, observations, load.pods)

            async with load_run(sandbox, kube, with_sandbox(sandbox, dict), load.pods, create_nodes) as run:
                sample = await _sample(sandbox, run, len(list(floor.nodes(load.pods))))
            await kube.close()
            return sample

        return asyncio.run(measure())


def measure_upstream(console: Console, load: Load, logs: Path | None) -> Sample:
    """Run the burst with upstream."""
    module = upstream.KARPENTER.module_folder(upstream.MODULE)
    pool = upstream.node_pool(most_cpus=MAX_CPUS)
    with sandboxed(console, audit=True, keep_logs=logs) as sandbox:
        sandbox.stop_component("temporal")
        autoscaler = upstream.install(sandbox, module)

        def processes() -> dict[str, list[psutil.Process]]:
            return {AUTOSCALER: autoscaler.processes()}

        async def measure() -> Sample:
            kube = await _connect(sandbox)
            await upstream.prepare(sandbox, kube, pool)
            await _until_owners_are_watched(sandbox)
            groups = with_sandbox(sandbox, processes)
            async with load_run(sandbox, kube, groups, load.pods) as run:
                claims = await kube.list(NODECLAIMS)
                types = kwok_types.pool_of(pool, module)
                cost = await asyncio.to_thread(bill.bill, claims, list(run.pods.objects.values()), types)
                sample = await _sample(sandbox, run, len(claims), cost)
                sample = replace(sample, scale_in=await _scale_in(kube, types, groups, load))
            await kube.close()
            return sample

        with started(autoscaler):
            return asyncio.run(measure())


def measure_tenon(console: Console, load: Load, logs: Path | None) -> Sample:
    """Run the burst with Tenon."""
    with sandboxed(console, audit=True, keep_logs=logs) as sandbox:
        worker = Worker(sandbox)
        pool = cluster.node_pool(most_cpus=MAX_CPUS)
        pool["spec"]["disruption"] = cluster.CONSOLIDATES

        async def measure() -> Sample:
            kube = await _connect(sandbox)
            await cluster.prepare(sandbox, kube, pool)
            await _until_owners_are_watched(sandbox)
            groups = with_sandbox(sandbox, of_worker(worker))
            async with load_run(sandbox, kube, groups, load.pods) as run:
                claims = await kube.list(NODECLAIMS)
                workflows = await per_node(await connect(sandbox), sandbox.cluster_name)
                types = await bill.pool_of(sandbox, kube)
                cost = await asyncio.to_thread(bill.bill, claims, list(run.pods.objects.values()), types)
                sample = await _sample(sandbox, run, len(claims), cost, workflows)
                sample = replace(sample, scale_in=await _scale_in(kube, types, groups, load))
            await kube.close()
            return sample

        with started(worker):
            return asyncio.run(measure())


async def _connect(sandbox: Sandbox) -> Kube:
    return await Kube.connect(str(sandbox.kubeconfig), qps=1000, burst=1000)


async def _until_owners_are_watched(sandbox: Sandbox) -> None:
    """Wait until the garbage collector watches what owns Nodes and NodeClaims, as in a cluster that is older than a
    minute. Until then it reads the owner of each new object.

    Raises:
        TimeoutError: it does not watch them in time.
    """
    deadline = time.monotonic() + OWNERS_WATCHED_WITHIN
    log = sandbox.layout.audit_log
    for owner in OWNERS:
        while not await asyncio.to_thread(has_watch, log, "kube-controller-manager", owner):
            if time.monotonic() > deadline:
                raise TimeoutError(f"kube-controller-manager does not watch {owner}; the audit log is {log}")
            await asyncio.sleep(1.0)


async def _scale_in(kube: Kube, types: Pool, groups: Groups, load: Load) -> Figures | None:
    if load.then is None:
        return None
    return await scale_in(kube, types, groups, load.pods, load.then, WITHIN)


async def _sample(
    sandbox: Sandbox, run: LoadRun, nodes: int, cost: bill.Bill | None = None, workflows: PerNode | None = None
) -> Sample:
    await asyncio.sleep(2 * audit.WRITTEN_WITHIN)
    return Sample(
        seconds=run.seconds,
        running=run.pods.count("Running"),
        nodes=nodes,
        refused=len(await asyncio.to_thread(sandbox.ec2().rejections)),
        used=run.used,
        requests=await asyncio.to_thread(read_requests, sandbox.layout.audit_log, run.between),
        bill=cost,
        per_node=workflows,
    )
