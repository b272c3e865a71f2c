"""What the leader does until it loses the Lease: its controllers, planning, and what needs a Temporal client."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import uuid
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker import Worker

from activities import loggers
from activities.clock import utc_now
from activities.disruption.calendars import Calendars
from activities.ec2.account_commitments import AccountCommitmentsReader
from activities.ec2.account_quotas import AccountQuotas
from activities.ec2.instance_statuses import failing
from activities.ec2.spot_scores import SpotScoresReader
from activities.rollout.advancing import RolloutAdvancer
from activities.rollout.launchable import VersionTypes
from worker.cache.cluster import ClusterCache
from worker.cache.rollout_view import RolloutView
from worker.controllers.base import Controller
from worker.controllers.cost.lower_bound import LowerBound
from worker.controllers.cost.sampling import CostController
from worker.controllers.disruption.disruption_freezes import DisruptionFreezeController
from worker.controllers.disruption.ended_commands import DisruptionCommandController
from worker.controllers.disruption.freeze_calendars import FreezeCalendarController
from worker.controllers.disruption.legacy_node_repair import LegacyNodeRepairController
from worker.controllers.disruption.node_repair_policies import NodeRepairPolicyController
from worker.controllers.disruption.nodeclaim_conditions import NodeClaimDisruptionController
from worker.controllers.disruption.pod_deletion_costs import PodDeletionCostController
from worker.controllers.disruption.replacements import ReplacementController
from worker.controllers.garbage_collection.sweeps import SweepController, quiet_interval
from worker.controllers.interruption.instance_status import InstanceStatusController
from worker.controllers.interruption.scheduled_changes import ScheduledChangeLimit
from worker.controllers.node.blocked_nodes import BlockedNodesController
from worker.controllers.node.consistency import NodeClaimConsistencyController
from worker.controllers.node.finalizer import NodeClaimFinalizerController
from worker.controllers.node.nodeclaim_workflows import NodeClaimWorkflowController
from worker.controllers.node.not_ready_nodes import NotReadyNodeController
from worker.controllers.node.pod_annotations import PodAnnotationsController
from worker.controllers.node.pod_events import PodEventsController
from worker.controllers.nodeclass.account_commitments import AccountCommitmentsController
from worker.controllers.nodeclass.account_quotas import AccountQuotasController
from worker.controllers.nodeclass.capacity_reservations import (
    CapacityBlockExpirationController,
    FreedPlacesController,
    ReservedCapacityTypeController,
)
from worker.controllers.nodeclass.instance_type_metrics import InstanceTypeMetricsController
from worker.controllers.nodeclass.nodeclass_workflows import NodeClassWorkflowController
from worker.controllers.nodeclass.refresh import NodeClassRefreshController
from worker.controllers.nodeclass.zonal_shift import ZonalShiftController
from worker.controllers.nodepool.prices import PoolPrices
from worker.controllers.nodepool.revisions import NodeRevisionController
from worker.controllers.nodepool.rollouts import NodeRolloutController
from worker.controllers.nodepool.schedules import NodeScheduleController
from worker.controllers.nodepool.spot_scores import SpotPlacementScoresController
from worker.controllers.nodepool.status import NodePoolStatusController
from worker.controllers.nodepool.temporal_schedules import ScheduleApplier, TemporalScheduleController
from worker.controllers.observability.cluster_metrics import ClusterMetrics
from worker.controllers.provisioning.capacity_buffer import CapacityBufferController
from worker.controllers.provisioning.node_overlay import NodeOverlayController
from worker.controllers.provisioning.purchase_turns import PurchaseTurns
from worker.controllers.provisioning.static_nodepool import StaticNodePoolController
from worker.controllers.provisioning.warm_nodes import WarmNodeController
from worker.own_namespace import own_namespace
from worker.runtime.assembly import BUILD_ID, Clients
from worker.runtime.child_processes import METRICS_FOLDER
from worker.runtime.launch_reports import stored_launches
from worker.runtime.leader.disabled_gates import warn_of_disabled_gates
from worker.runtime.leader.garbage_collection_schedule import reconcile_schedule, sweep_has_left_work, sweep_now
from worker.runtime.leader.leader_announcements import Announcements
from worker.runtime.leader.legacy_serving import serve_legacy
from worker.runtime.leader.plan_activities import PlanActivities
from worker.runtime.leader.planning import Disruption, Planning, disruption_parts, plan_parts
from worker.runtime.temporal.activity_lanes import by_lane
from worker.runtime.temporal.activity_retries import RetryAfterInterceptor
from worker.runtime.temporal.temporal_connection import Connection
from worker.runtime.temporal.temporal_schedules import ensure_schedule
from worker.settings import Settings
from worker.settings.record_sinks import parse_record_sinks
from workflows import names
from workflows.options import PLANNING

log = loggers.PROCESS

TEMPORAL_PAUSE = 2.0
"""Seconds between two attempts of a call that Temporal did not answer."""


async def lead(
    settings: Settings, temporal: Connection, clients: Clients, cache: ClusterCache, limit: ScheduledChangeLimit
) -> None:
    """Serve the plan queues and run the controllers until cancelled."""
    kube, gates = clients.kube, settings.feature_gates
    metrics_folder = _metrics_folder(settings)
    cluster_metrics = ClusterMetrics(cache, metrics_folder) if metrics_folder is not None else None
    planning = plan_parts(settings, clients, cache, cluster_metrics)
    disruption = disruption_parts(settings, clients, cache, planning)
    controllers = _controllers(settings, clients, cache, planning, disruption, limit)
    async with asyncio.TaskGroup() as group:
        for controller in controllers:
            group.create_task(controller.run(), name=controller.name)
        group.create_task(serve_legacy(kube, clients.recorder, cache, settings, clients.ec2.cluster), name="legacy")
        group.create_task(warn_of_disabled_gates(kube, gates), name="disabled gates")
        if cluster_metrics is not None:
            group.create_task(cluster_metrics.run(), name="cluster metrics")
        try:
            await temporal.serve(lambda client: _decide(client, clients, settings, cache, planning, disruption))
        finally:
            planning.planner.close()
            disruption.disruptor.close()


def _controllers(
    settings: Settings,
    clients: Clients,
    cache: ClusterCache,
    planning: Planning,
    disruption: Disruption,
    limit: ScheduledChangeLimit,
) -> list[Controller]:
    """The leader's controllers that need no Temporal client."""
    kube, view, gates, cluster = clients.kube, planning.view, settings.feature_gates, settings.cluster_name
    metrics_folder = _metrics_folder(settings)
    prices = PoolPrices()
    controllers: list[Controller] = [
        NodePoolStatusController(
            kube,
            clients.recorder,
            cache,
            view,
            static_capacity=gates.static_capacity,
            measured=not settings.disable_cluster_state_observability,
            refusals=planning.refusals,
            slowed=disruption.slowed,
            prices=prices,
            policy=planning.policy,
        ),
        PodEventsController(kube, cache),
        PodAnnotationsController(clients.recorder, cache, deletion_costs_managed=gates.pod_deletion_cost_management),
        DisruptionFreezeController(kube, cache, view),
        FreezeCalendarController(kube, cache, view, Calendars(insecure=settings.insecure_calendars).read),
        NodeScheduleController(kube, cache, view, planning.room.rooms, capacity_buffers=gates.capacity_buffer),
        NodeRevisionController(kube, cache, view, own_namespace()),
        NodeClaimDisruptionController(kube, cache, view, clients.ec2, cluster, ca_bundle=clients.ec2.cluster.ca_bundle),
        NodeClaimFinalizerController(kube, cache, cluster),
        NodeClaimConsistencyController(kube, clients.recorder, cache, cluster),
        InstanceStatusController(kube, clients.recorder, cache, cluster, partial(failing, clients.aws), limit),
    ]
    if metrics_folder is not None:
        controllers.append(
            InstanceTypeMetricsController(cache, view, clients.ec2, planning.refusals, metrics_folder, prices)
        )
    if metrics_folder is not None or parse_record_sinks(settings.record_sinks):
        controllers.append(
            CostController(
                cache,
                clients.ec2.price,
                planning.room.requests,
                clients.record,
                cluster,
                settings.cost_interval,
                metrics_folder,
                LowerBound(view, clients.ec2, planning.policy).compute,
                planning.cost,
            )
        )
    if gates.node_repair and not settings.legacy_node_repair:
        controllers.append(NodeRepairPolicyController(kube, cache, view, disruption.repair))
    if gates.node_repair and settings.legacy_node_repair:
        controllers.append(LegacyNodeRepairController(kube, clients.recorder, cache, cluster))
    if gates.pod_deletion_cost_management:
        controllers.append(
            PodDeletionCostController(kube, cache, view, disruption.supply.usual, planning.batcher.nominated_nodes)
        )
    return [
        *controllers,
        *_account_controllers(settings, clients, cache, planning),
        *_capacity_controllers(settings, clients, cache, planning),
    ]


def _metrics_folder(settings: Settings) -> Path | None:
    """Where the gauges of the cluster's state are written; None if they are off."""
    folder = os.environ.get(METRICS_FOLDER)
    return Path(folder) if folder and not settings.disable_cluster_state_observability else None


def _account_controllers(
    settings: Settings, clients: Clients, cache: ClusterCache, planning: Planning
) -> Iterator[Controller]:
    """Those that read what AWS says about the account: scores, reservations, shifted zones, quotas, commitments."""
    kube, view, ec2 = clients.kube, planning.view, clients.ec2
    yield SpotPlacementScoresController(
        clients.recorder, cache, view, ec2, planning.spot_scores, SpotScoresReader(clients.aws)
    )
    if settings.feature_gates.reserved_capacity:
        yield ReservedCapacityTypeController(kube, cache, ec2)
        yield FreedPlacesController(cache, ec2)
        yield CapacityBlockExpirationController(kube, clients.recorder, cache, view.node_class)
    if settings.enable_zonal_shift:
        yield ZonalShiftController(clients.recorder, cache, view, ec2)
    if not settings.isolated_vpc:
        yield AccountQuotasController(
            cache, planning.refusals, AccountQuotas(clients.aws, ec2.catalogue.vcpus, utc_now)
        )
    if settings.enable_commitments and not settings.isolated_vpc:
        reader = AccountCommitmentsReader(clients.aws, ec2.catalogue.vcpus, utc_now)
        yield AccountCommitmentsController(cache, planning.commitments, reader, settings.cluster_name)


def _capacity_controllers(
    settings: Settings, clients: Clients, cache: ClusterCache, planning: Planning
) -> Iterator[Controller]:
    """That of NodeOverlays, and those of capacity which no pod asks for yet: buffers, warm nodes, static NodePools."""
    kube, view, ec2, policy = clients.kube, planning.view, clients.ec2, planning.policy
    if settings.feature_gates.node_overlay:
        yield NodeOverlayController(kube, cache, view, ec2)
    # Without the gate CapacityBuffer the cache has no buffers, and there are only the floors of NodeSchedules.
    yield CapacityBufferController(kube, cache, view, planning.room, policy, planning.batcher.reserved, ec2)
    turns = PurchaseTurns(view)
    yield WarmNodeController(kube, clients.recorder, cache, view, ec2, ec2, policy, turns)
    if settings.feature_gates.static_capacity:
        yield StaticNodePoolController(kube, cache, view, ec2, policy, turns, planning.refusals)


async def _decide(
    client: Client,
    clients: Clients,
    settings: Settings,
    cache: ClusterCache,
    planning: Planning,
    disruption: Disruption,
) -> None:
    """Everything that a leader does through this Temporal client, until cancelled."""
    cluster = settings.cluster_name
    queue = names.leader_queue(cluster, f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}")
    announcements = Announcements(client, cluster, queue)
    planning.refusals.ask = partial(stored_launches, client, cluster)
    rollout_view = RolloutView(cache, planning.view, why_blocked=disruption.moves.why_blocked)
    rollouts = RolloutAdvancer(rollout_view, clients.kube, VersionTypes(planning.view, clients.ec2))
    schedules = ScheduleApplier(cache, planning.view)
    plan = PlanActivities(
        planning.batcher,
        planning.planner,
        disruption.disruptor,
        disruption.forecaster,
        disruption.savings,
        rollouts,
        schedules,
        announcements,
        planning.cost,
    )
    plan_activities = by_lane(plan.all(), {PLANNING})[PLANNING]

    async def sweep() -> None:
        await sweep_now(client, cluster)

    def serving(task_queue: str) -> Worker:
        return Worker(
            client,
            interceptors=[RetryAfterInterceptor()],
            task_queue=task_queue,
            activities=plan_activities,
            build_id=BUILD_ID,
            max_concurrent_activities=10,
            graceful_shutdown_timeout=timedelta(),  # long polls have nothing to finish, and a plan is retried
        )

    await _temporal_serves(client)  # a Worker that starts while Temporal is unavailable would end the process
    async with serving(queue), serving(names.plan_queue(cluster)), asyncio.TaskGroup() as group:
        log.info("The worker leads and plans for the cluster", extra={"cluster": cluster})
        group.create_task(announcements.run(), name="announcements")
        group.create_task(
            reconcile_schedule(client, cluster, quiet_interval(settings.garbage_collection_interval)),
            name="garbage collection",
        )
        group.create_task(NotReadyNodeController(cache, sweep).run(), name="not ready nodes")
        has_left_work = partial(sweep_has_left_work, client, cluster)
        sweeps = SweepController(cache, settings.garbage_collection_interval, sweep, has_left_work)
        group.create_task(sweeps.run(), name="sweeps")
        nodeclaims = NodeClaimWorkflowController(client, cache, cluster, queue)
        group.create_task(nodeclaims.run(), name="nodeclaim workflows")
        group.create_task(
            DisruptionCommandController(client, clients.kube, cache, cluster).run(), name="disruption commands"
        )
        group.create_task(ReplacementController(client, cache, cluster).run(), name="replacements")
        group.create_task(NodeClassWorkflowController(client, cache, cluster).run(), name="nodeclass workflows")
        refresh = NodeClassRefreshController(
            client, cache, cluster, clients.recorder, clients.ec2, clients.version.current
        )
        group.create_task(refresh.run(), name="nodeclass refresh")
        group.create_task(BlockedNodesController(client, cache, cluster).run(), name="blocked nodes")
        node_rollouts = NodeRolloutController(client, clients.kube, cache, planning.view, cluster, queue)
        group.create_task(node_rollouts.run(), name="node rollouts")
        temporal_schedules = TemporalScheduleController(
            client, clients.kube, cache, planning.view, cluster, ensure_schedule
        )
        group.create_task(temporal_schedules.run(), name="temporal schedules")


async def _temporal_serves(client: Client) -> None:
    """Wait until Temporal answers. A leader survives outages of Temporal."""
    while True:
        with contextlib.suppress(RPCError):  # the Temporal health check logs it once a minute
            if await client.service_client.check_health():
                return
        await asyncio.sleep(TEMPORAL_PAUSE)
