"""The cluster process: cache, controllers and planning. A Lease makes one replica at a time active.

The Lease saves work, but correctness does not depend on it. Two active processes would find the same claims in the
cluster and the same labels on them, and write nothing twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import uuid
from datetime import timedelta
from functools import partial
from pathlib import Path

from temporalio import activity
from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker import Worker

from activities import loggers, metrics
from activities.ec2.instance_statuses import failing
from activities.ec2.queue import MessageQueue
from activities.kubernetes.client import Kube
from activities.planning.batching import Batcher, Window
from activities.planning.budget_reporting import BudgetReporter
from activities.planning.buffers import BufferRoom
from activities.planning.disrupting import Disruptor
from activities.planning.held_node_events import HeldNodeEvents
from activities.planning.launch_refusals import LaunchRefusals
from activities.planning.moves import MoveFinder, methods_within
from activities.planning.planner import Planner
from activities.planning.slowed_pools import SlowedPools
from tenon.lifecycle.messages.base import ActivityName
from tenon.lifecycle.messages.disruption import (
    AwaitDisruptionInput,
    DisruptInput,
    DisruptionDecision,
    MeasureInput,
    MeasureResult,
    StepResult,
)
from tenon.lifecycle.messages.provisioning import AwaitBatchInput, BatchSummary, PlanInput, PlanResult
from worker.cache.changes import Topic
from worker.cache.cluster import ClusterCache
from worker.cache.planning_view import PlanningView
from worker.controllers.base import Controller
from worker.controllers.capacity_buffer import CapacityBufferController
from worker.controllers.capacity_reservations import (
    CapacityBlockExpirationController,
    ReservedCapacityTypeController,
)
from worker.controllers.ended_disruption_commands import DisruptionCommandController
from worker.controllers.instance_status import InstanceStatusController
from worker.controllers.instance_type_metrics import InstanceTypeMetricsController
from worker.controllers.interruption import InterruptionController
from worker.controllers.node_overlay import NodeOverlayController
from worker.controllers.node_repair import NodeRepairController
from worker.controllers.nodeclaim_consistency import NodeClaimConsistencyController
from worker.controllers.nodeclaim_disruption import NodeClaimDisruptionController
from worker.controllers.nodeclaim_finalizer import NodeClaimFinalizerController
from worker.controllers.nodeclaim_pod_events import PodEventsController
from worker.controllers.nodeclaim_workflows import NodeClaimWorkflowController
from worker.controllers.nodeclass_workflows import NodeClassWorkflowController
from worker.controllers.nodepool_status import NodePoolStatusController
from worker.controllers.not_ready_nodes import NotReadyNodeController
from worker.controllers.startup_cordon import StartupCordonController
from worker.controllers.static_nodepool import StaticNodePoolController
from worker.controllers.zonal_shift import ZonalShiftController
from worker.runtime.api_server_health import watch_api_server
from worker.runtime.assembly import BUILD_ID, Clients, connect, warm_up
from worker.runtime.child_processes import METRICS_FOLDER
from worker.runtime.disabled_gate_warnings import warn_of_disabled_gates
from worker.runtime.garbage_collector import freeze_cache_records
from worker.runtime.housekeeping_schedule import reconcile_schedule, sweep_now
from worker.runtime.interrupted_offerings import InterruptedOfferings
from worker.runtime.leader_announcements import Announcements
from worker.runtime.leader_conflict import LeaderConflict
from worker.runtime.lease import IDENTITY_PREFIX, LeaseElection
from worker.runtime.legacy_serving import serve_legacy
from worker.runtime.memory import return_free_memory
from worker.runtime.process import Readiness, run, until_stopped
from worker.runtime.temporal_client import watch_temporal
from worker.runtime.temporal_connection import Connection
from worker.runtime.temporal_isolation import TemporalIsolation
from worker.runtime.tracing import tracing_wanted
from worker.settings import Settings
from worker.webhook.definitions import reconcile_definitions
from workflows import names

log = loggers.PROCESS

TURN = 0.001
"""Seconds after which a planning thread yields the interpreter. The event loop waits for that after each system call.
With this value it answers twice as many requests as with Python's own 5 ms.
"""
TEMPORAL_PAUSE = 2.0
"""Seconds between two attempts of a call that Temporal did not answer."""
ELECTION_QPS, ELECTION_BURST = 10.0, 20
"""Request limits for the election and for the health check of the API server. These requests never wait for writes of
the cluster's objects, because a renewal that comes ten seconds late ends the lead.
"""


class PlanActivities:
    """The activities of the plan queues."""

    def __init__(self, batcher: Batcher, planner: Planner, disruptor: Disruptor, announced: Announcements) -> None:
        self._batcher = batcher
        self._planner = planner
        self._disruptor = disruptor
        self._announced = announced

    @activity.defn(name=ActivityName.AWAIT_BATCH)
    async def await_batch(self, given: AwaitBatchInput) -> BatchSummary:
        """Wait for pods that fit on no node."""
        with self._announced.question_of(activity.info().workflow_id or ""):
            return await self._batcher.await_batch(given)

    @activity.defn(name=ActivityName.PLAN)
    async def plan(self, given: PlanInput) -> PlanResult:
        """Plan one batch."""
        with self._announced.question_of(activity.info().workflow_id or ""):
            return await self._planner.plan(given)

    @activity.defn(name=ActivityName.AWAIT_DISRUPTION)
    async def await_disruption(self, given: AwaitDisruptionInput) -> DisruptionDecision:
        """Wait for nodes that may be disrupted."""
        with self._announced.question_of(activity.info().workflow_id or ""):
            return await self._disruptor.await_candidates(given)

    @activity.defn(name=ActivityName.VALIDATE_COMMAND)
    async def validate_command(self, given: DisruptInput) -> StepResult:
        """Check that a disruption command still holds."""
        return await self._disruptor.validate(given.command)

    @activity.defn(name=ActivityName.MEASURE_SAVING)
    async def measure_saving(self, given: MeasureInput) -> MeasureResult:
        """Compare what a disruption command saves with what was predicted."""
        return await self._disruptor.measure(given)


async def main(settings: Settings, readiness: Readiness, stop: asyncio.Event) -> None:
    """Watch the cluster, and make decisions for it while holding the Lease."""
    sys.setswitchinterval(TURN)
    temporal = await Connection.open(tracing=tracing_wanted())
    clients = await connect(settings)
    election = await Kube.connect(qps=ELECTION_QPS, burst=ELECTION_BURST)
    cache = ClusterCache(
        clients.kube,
        silence_limit=settings.watch_silence_limit.total_seconds(),
        gates=settings.feature_gates,
        default_spread=settings.default_spread(),
    )
    rivals = LeaderConflict(
        election, clients.recorder, namespace=settings.namespace(), name=settings.leader_election_name
    )
    warming = asyncio.create_task(warm_up(clients), name="warm up")
    readiness.checks.append(
        lambda: f"the cluster cache still reads {', '.join(waits)}" if (waits := cache.unsynced_resources) else ""
    )
    readiness.checks.append(lambda: rivals.unseen)
    readiness.why = ""
    cut_off = TemporalIsolation()
    try:
        await until_stopped(
            stop,
            [
                asyncio.create_task(watch_temporal(temporal, readiness, note=cut_off.note), name="temporal health"),
                asyncio.create_task(temporal.run(), name="temporal certificates"),
                asyncio.create_task(watch_api_server(election, readiness), name="api server health"),
                asyncio.create_task(cache.run(), name="cache"),
                asyncio.create_task(freeze_cache_records(cache.wait_synced), name="garbage"),
                asyncio.create_task(rivals.run(), name="rivals"),
                # Needs neither Temporal nor the lead: startup cordons must go if another controller leads.
                asyncio.create_task(StartupCordonController(clients.kube, cache).run(), name="startup cordon"),
                # Needs neither as well: see worker/controllers/interruption.py.
                *_read_interruptions(settings, temporal, clients, cache, rivals),
                asyncio.create_task(
                    _lead_when_elected(settings, temporal, clients, cache, rivals, cut_off, election),
                    name="lead when elected",
                ),
            ],
        )
    finally:
        readiness.why = "stopping"
        warming.cancel()
        await asyncio.gather(warming, return_exceptions=True)
        await clients.close()
        await election.close()


def _read_interruptions(
    settings: Settings, temporal: Connection, clients: Clients, cache: ClusterCache, rivals: LeaderConflict
) -> list[asyncio.Task[None]]:
    """Start to read the interruption queue, if there is one, while no other controller leads."""
    if not settings.interruption_queue:
        return []
    queue = MessageQueue(clients.aws.sqs, settings.interruption_queue)
    offerings = InterruptedOfferings()

    async def read() -> None:
        await InterruptionController(
            clients.kube, clients.recorder, cache, queue, settings.cluster_name, offerings.sold_out
        ).run()

    async def report(client: Client) -> None:
        await offerings.report(client, settings.cluster_name)

    return [
        asyncio.create_task(rivals.serve(read), name="interruption"),
        asyncio.create_task(temporal.serve(report), name="interrupted offerings"),
    ]


async def _lead_when_elected(
    settings: Settings,
    temporal: Connection,
    clients: Clients,
    cache: ClusterCache,
    rivals: LeaderConflict,
    cut_off: TemporalIsolation,
    kube: Kube,
) -> None:
    """``kube`` is used only for the Lease, so that nothing else delays a renewal."""

    async def lead() -> None:
        definitions = asyncio.create_task(reconcile_definitions(clients.kube, settings), name="definitions")
        try:
            await _lead(settings, temporal, clients, cache)
        finally:
            definitions.cancel()
            await asyncio.gather(definitions, return_exceptions=True)

    if settings.disable_leader_election:
        metrics.LEADER_STATUS.labels(settings.leader_election_name).set(1)
        await rivals.serve(lead)
        return
    election = LeaseElection(
        kube,
        name=settings.leader_election_name,
        namespace=settings.namespace(),
        identity=f"{IDENTITY_PREFIX}{socket.gethostname()}_{os.getpid()}",
        stand_by=lambda leading: rivals.stand_by(leading) or cut_off.stand_by(leading),
    )
    await election.run(lead)


async def _lead(settings: Settings, temporal: Connection, clients: Clients, cache: ClusterCache) -> None:
    """Serve the plan queues and run the controllers until cancelled."""
    view = PlanningView(cache)
    gates, policy = settings.feature_gates, settings.plan_policy()
    room = BufferRoom(gate=gates.capacity_buffer)
    window = Window(settings.batch_idle_duration.total_seconds(), settings.batch_max_duration.total_seconds())
    refusals = LaunchRefusals(lambda pool: cache.changes.publish(Topic.POOL, pool))
    slowed = SlowedPools(lambda pool: cache.changes.publish(Topic.POOL, pool))
    batcher = Batcher(view, buffers=room, window=window, refusals=refusals)
    planner = Planner(
        view, clients.ec2, clients.kube, clients.recorder, batcher, policy=policy, buffers=room, refusals=refusals
    )
    methods = partial(methods_within, spot_to_spot=gates.spot_to_spot_consolidation)
    moves = MoveFinder(
        view,
        clients.ec2,
        batcher,
        clients.recorder,
        methods,
        policy=policy,
        buffers=room,
        refusals=refusals,
        slowed=slowed,
        free_memory=return_free_memory,
    )
    budgets = BudgetReporter(clients.recorder)
    disruptor = Disruptor(
        view,
        promised=batcher.nominated_nodes,
        buffers=room,
        moves=moves,
        budgets=budgets,
        slowed=slowed,
        held=HeldNodeEvents(clients.recorder),
    )
    kube = clients.kube
    controllers: list[Controller] = [
        NodePoolStatusController(
            kube,
            clients.recorder,
            cache,
            view,
            static_capacity=gates.static_capacity,
            measured=not settings.disable_cluster_state_observability,
            refusals=refusals,
            slowed=slowed,
        ),
        PodEventsController(kube, cache),
        NodeClaimDisruptionController(
            kube, cache, view, clients.ec2, settings.cluster_name, ca_bundle=clients.ec2.cluster.ca_bundle
        ),
        NodeClaimFinalizerController(kube, cache, settings.cluster_name),
        NodeClaimConsistencyController(kube, clients.recorder, cache, settings.cluster_name),
        InstanceStatusController(kube, clients.recorder, cache, settings.cluster_name, partial(failing, clients.aws)),
    ]
    if gates.reserved_capacity:
        controllers.append(ReservedCapacityTypeController(kube, cache, clients.ec2))
        controllers.append(CapacityBlockExpirationController(kube, clients.recorder, cache, view.node_class))
    if settings.enable_zonal_shift:
        controllers.append(ZonalShiftController(clients.recorder, cache, view, clients.ec2))
    folder = os.environ.get(METRICS_FOLDER)
    if folder and not settings.disable_cluster_state_observability:
        controllers.append(InstanceTypeMetricsController(cache, view, clients.ec2, refusals, Path(folder)))
    if gates.node_overlay:
        controllers.append(NodeOverlayController(kube, cache, view, clients.ec2))
    if gates.node_repair:
        controllers.append(NodeRepairController(kube, clients.recorder, cache, settings.cluster_name))
    if gates.capacity_buffer:
        controllers.append(CapacityBufferController(kube, cache, view, room, policy, batcher.reserved))
    if gates.static_capacity:
        controllers.append(StaticNodePoolController(kube, cache, view, clients.ec2, policy))

    async with asyncio.TaskGroup() as group:
        for controller in controllers:
            group.create_task(controller.run(), name=controller.name)
        group.create_task(serve_legacy(kube, clients.recorder, cache, settings, clients.ec2.cluster), name="legacy")
        group.create_task(warn_of_disabled_gates(kube, gates), name="disabled gates")
        try:
            await temporal.serve(lambda client: _decide(client, kube, settings, cache, batcher, planner, disruptor))
        finally:
            moves.close()


async def _decide(
    client: Client,
    kube: Kube,
    settings: Settings,
    cache: ClusterCache,
    batcher: Batcher,
    planner: Planner,
    disruptor: Disruptor,
) -> None:
    """Everything that a leader does through this Temporal client, until cancelled."""
    cluster = settings.cluster_name
    queue = names.leader_queue(cluster, f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}")
    announcements = Announcements(client, cluster, queue)
    plan = PlanActivities(batcher, planner, disruptor, announcements)

    async def sweep() -> None:
        await sweep_now(client, cluster)

    def serving(task_queue: str) -> Worker:
        return Worker(
            client,
            task_queue=task_queue,
            activities=[plan.await_batch, plan.plan, plan.await_disruption, plan.validate_command, plan.measure_saving],
            build_id=BUILD_ID,
            max_concurrent_activities=10,
            graceful_shutdown_timeout=timedelta(),  # long polls have nothing to finish, and a plan is retried
        )

    await _temporal_serves(client)  # a Worker that starts while Temporal is unavailable would end the process
    async with serving(queue), serving(names.plan_queue(cluster)), asyncio.TaskGroup() as group:
        log.info("The worker leads and plans for the cluster", extra={"cluster": cluster})
        group.create_task(announcements.run(), name="announcements")
        group.create_task(
            reconcile_schedule(client, cluster, settings.garbage_collection_interval), name="housekeeping"
        )
        group.create_task(NotReadyNodeController(cache, sweep).run(), name="lost nodes")
        nodeclaims = NodeClaimWorkflowController(client, cache, cluster, queue, settings.workflow_revision)
        group.create_task(nodeclaims.run(), name="nodeclaim workflows")
        group.create_task(DisruptionCommandController(client, kube, cache, cluster).run(), name="disruption commands")
        group.create_task(NodeClassWorkflowController(client, cache, cluster).run(), name="nodeclass workflows")


async def _temporal_serves(client: Client) -> None:
    """Wait until Temporal answers. A leader survives outages of Temporal."""
    while True:
        with contextlib.suppress(RPCError):  # the Temporal health check logs it once a minute
            if await client.service_client.check_health():
                return
        await asyncio.sleep(TEMPORAL_PAUSE)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        run("cluster", main)
