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
from temporalio.service import RPCError
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
from worker.apiserver import watch_api_server
from worker.assembly import BUILD_ID, Clients, connect, warm_up
from worker.bridge import Bridge
from worker.cache.cluster import ClusterCache
from worker.housekeeping import keep_schedule, sweep_now
from worker.lease import LeaseElection
from worker.lostnodes import LostNodes
from worker.nodepools import NodePoolKeeper
from worker.opening import NodeOpener
from worker.podevents import PodEventKeeper
from worker.process import Readiness, run, until_stopped
from worker.settings import Settings
from worker.telemetry import tracing_wanted
from worker.temporal import connect as connect_temporal
from worker.temporal import watch_temporal
from worker.view import CachedView
from workflows import names

log = logging.getLogger("worker.cluster")

TEMPORAL_PAUSE = 2.0
"""Seconds between two tries of a call that Temporal did not answer."""


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
    cache = ClusterCache(clients.kube, silence_limit=settings.watch_silence_limit.total_seconds())
    warming = asyncio.create_task(warm_up(clients), name="warm up")
    readiness.checks.append(
        lambda: f"the cluster cache still reads {', '.join(waits)}" if (waits := cache.awaited) else ""
    )
    readiness.why = ""
    try:
        await until_stopped(
            stop,
            [
                asyncio.create_task(watch_temporal(client, readiness), name="temporal health"),
                asyncio.create_task(watch_api_server(clients.kube, readiness), name="api server health"),
                asyncio.create_task(cache.run(), name="cache"),
                asyncio.create_task(_lead_when_elected(settings, client, clients, cache), name="lead when elected"),
            ],
        )
    finally:
        readiness.why = "stopping"
        warming.cancel()
        await asyncio.gather(warming, return_exceptions=True)
        await clients.close()


async def _lead_when_elected(settings: Settings, client: Client, clients: Clients, cache: ClusterCache) -> None:
    async def lead() -> None:
        # it needs no Temporal, and is there for when that is away
        opener = asyncio.create_task(NodeOpener(clients.kube, cache).run(), name="node opener")
        try:
            await _lead(settings, client, clients, cache)
        finally:
            opener.cancel()
            for end in await asyncio.gather(opener, return_exceptions=True):
                if isinstance(end, Exception):
                    log.warning("Opening nodes did not end cleanly: %r", end, exc_info=end)

    if settings.disable_leader_election:
        await lead()
        return
    election = LeaseElection(
        clients.kube,
        name=settings.leader_election_name,
        namespace=settings.namespace(),
        identity=f"{socket.gethostname()}_{os.getpid()}",
    )
    await election.run(lead)


async def _lead(settings: Settings, client: Client, clients: Clients, cache: ClusterCache) -> None:
    """Serve the plan queue, the bridge and the NodePools' status until cancelled."""
    view = CachedView(cache)
    batcher = Batcher(view)
    planner = Planner(view, clients.ec2, clients.kube, clients.recorder, batcher, policy=settings.plan_policy())
    plan = PlanActivities(batcher, planner, Disruptor(view, promised=batcher.promised))
    window = (settings.batch_idle_duration.total_seconds(), settings.batch_max_duration.total_seconds())
    bridge = Bridge(client, cache, settings.cluster_name, window)

    async def sweep() -> None:
        await sweep_now(client, settings.cluster_name)

    keeper = NodePoolKeeper(clients.kube, clients.recorder, cache, view)
    worker = Worker(
        client,
        task_queue=names.plan_queue(settings.cluster_name),
        activities=[plan.await_batch, plan.plan, plan.await_disruption],
        build_id=BUILD_ID,
        max_concurrent_activities=10,
        graceful_shutdown_timeout=timedelta(),  # long polls have nothing to finish; a plan is made again
    )
    await _temporal_serves(client)  # a Worker that begins while it does not would end the process
    async with worker, asyncio.TaskGroup() as group:
        log.info("planning for the cluster", extra={"cluster": settings.cluster_name})
        group.create_task(_announced(bridge), name="announce")
        group.create_task(
            keep_schedule(client, settings.cluster_name, settings.garbage_collection_interval), name="housekeeping"
        )
        group.create_task(LostNodes(cache, sweep).run(), name="lost nodes")
        group.create_task(bridge.run(), name="bridge")
        group.create_task(keeper.run(), name="nodepools")
        group.create_task(PodEventKeeper(clients.kube, cache).run(), name="pod events")


async def _temporal_serves(client: Client) -> None:
    """Wait until Temporal answers: a leader outlives its outages."""
    while True:
        with contextlib.suppress(RPCError):  # told once a minute by the watch on its health
            if await client.service_client.check_health():
                return
        await asyncio.sleep(TEMPORAL_PAUSE)


async def _announced(bridge: Bridge) -> None:
    """Tell the singletons of the new planner, when Temporal takes it."""
    while True:
        with contextlib.suppress(RPCError):
            await bridge.announce()
            return
        await asyncio.sleep(TEMPORAL_PAUSE)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        run("cluster", main)
