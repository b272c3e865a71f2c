"""The cluster process: cache, bridge, planning. One replica at a time, by a Lease.

The Lease saves work; it guards nothing. Two active processes would find the same claims in the cluster and the same
labels on them, and write nothing twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from datetime import timedelta

from temporalio import activity
from temporalio.client import Client
from temporalio.worker import Worker

from activities.planning.batching import Batcher
from activities.planning.disrupting import Disruptor
from activities.planning.planner import Planner
from tenon.lifecycle.messages import (
    ActivityName,
    AwaitBatchInput,
    AwaitDisruptionInput,
    BatchSummary,
    DisruptionDecision,
    PlanInput,
    PlanResult,
)
from worker.assembly import BUILD_ID, Clients, connect, warm_up
from worker.bridge import Bridge
from worker.cache.cluster import ClusterCache
from worker.lease import LeaseElection
from worker.nodepools import NodePoolKeeper
from worker.podevents import PodEventKeeper
from worker.process import Readiness, run
from worker.settings import Settings
from worker.telemetry import tracing_wanted
from worker.temporal import connect as connect_temporal
from worker.temporal import watch_temporal
from worker.view import CachedView
from workflows import names

log = logging.getLogger("worker.cluster")


class PlanActivities:
    """The activities of the plan queue."""

    def __init__(self, batcher: Batcher, planner: Planner, disruptor: Disruptor) -> None:
        self._batcher = batcher
        self._planner = planner
        self._disruptor = disruptor

    @activity.defn(name=ActivityName.AWAIT_BATCH)
    async def await_batch(self, given: AwaitBatchInput) -> BatchSummary:
        """Wait for pods that fit nowhere."""
        return await self._batcher.await_batch(given)

    @activity.defn(name=ActivityName.PLAN)
    async def plan(self, given: PlanInput) -> PlanResult:
        """Decide one batch."""
        return await self._planner.plan(given)

    @activity.defn(name=ActivityName.AWAIT_DISRUPTION)
    async def await_disruption(self, given: AwaitDisruptionInput) -> DisruptionDecision:
        """Wait for nodes that may leave."""
        return await self._disruptor.await_candidates(given)


async def main(settings: Settings, readiness: Readiness, stop: asyncio.Event) -> None:
    """Watch the cluster, and while holding the Lease decide for it."""
    client = await connect_temporal(tracing=tracing_wanted())
    clients = await connect(settings)
    tasks = [asyncio.create_task(watch_temporal(client, readiness), name="temporal health")]
    cache = ClusterCache(clients.kube)
    tasks.append(asyncio.create_task(cache.run(), name="cache"))
    tasks.append(asyncio.create_task(warm_up(clients), name="warm up"))
    readiness.checks.append(lambda: "" if cache.synced else "the cluster cache is not synced yet")
    readiness.why = ""
    try:
        await _lead_when_elected(settings, client, clients, cache, stop)
    finally:
        readiness.why = "stopping"
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await clients.close()


async def _lead_when_elected(
    settings: Settings, client: Client, clients: Clients, cache: ClusterCache, stop: asyncio.Event
) -> None:
    async def lead() -> None:
        await _lead(settings, client, clients, cache)

    if settings.disable_leader_election:
        work = asyncio.create_task(lead(), name="lead")
    else:
        election = LeaseElection(
            clients.kube,
            name=settings.leader_election_name,
            namespace=settings.namespace(),
            identity=f"{socket.gethostname()}_{os.getpid()}",
        )
        work = asyncio.create_task(election.run(lead), name="lead when elected")
    told = asyncio.create_task(stop.wait(), name="stop")
    await asyncio.wait({work, told}, return_when=asyncio.FIRST_COMPLETED)
    told.cancel()
    if work.done():
        await work
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


async def _lead(settings: Settings, client: Client, clients: Clients, cache: ClusterCache) -> None:
    """Serve the plan queue, the bridge and the NodePools' status until cancelled."""
    view = CachedView(cache)
    batcher = Batcher(view)
    planner = Planner(view, clients.ec2, clients.kube, clients.recorder, batcher)
    plan = PlanActivities(batcher, planner, Disruptor(view))
    window = (settings.batch_idle_duration.total_seconds(), settings.batch_max_duration.total_seconds())
    bridge = Bridge(client, cache, settings.cluster_name, window)
    keeper = NodePoolKeeper(clients.kube, clients.recorder, cache, view)
    worker = Worker(
        client,
        task_queue=names.plan_queue(settings.cluster_name),
        activities=[plan.await_batch, plan.plan, plan.await_disruption],
        build_id=BUILD_ID,
        max_concurrent_activities=10,
        graceful_shutdown_timeout=timedelta(),  # long polls have nothing to finish; a plan is made again
    )
    async with worker, asyncio.TaskGroup() as group:
        log.info("planning for the cluster", extra={"cluster": settings.cluster_name})
        await bridge.announce()
        group.create_task(bridge.run(), name="bridge")
        group.create_task(keeper.run(), name="nodepools")
        group.create_task(PodEventKeeper(clients.kube, cache).run(), name="pod events")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        run("cluster", main)
