"""Builds the clients and the Temporal workers, for the worker processes and for tests."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Any

import botocore.session
from botocore.utils import InstanceMetadataRegionFetcher
from temporalio.client import Client
from temporalio.worker import Worker

from activities import loggers
from activities.disruption.ask_to_leave import disrupt
from activities.disruption.awaited_replacements import AwaitedReplacementActivities
from activities.disruption.command_end import CommandEnd
from activities.disruption.commands import CommandActivities
from activities.ec2.client import Ec2
from activities.ec2.cluster import describe_cluster, version_by_eks
from activities.ec2.errors import EC2Error
from activities.ec2.price_tables import PriceTableError
from activities.ec2.provider import Ec2Provider
from activities.ec2.ttl_cache import Refresh
from activities.garbage_collection.sweep import GarbageCollection
from activities.gate import Gate
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ForbiddenError
from activities.kubernetes.events import EventRecorder
from activities.kubernetes.resources import SERVICES
from activities.node.launch_breakers import LaunchBreakers
from activities.node.nodeclaim_lifecycle import NodeActivities
from activities.node.reboot_activities import RebootActivities
from activities.nodeclass.cluster_version import ClusterVersion, server_version
from activities.nodeclass.nodeclasses import NodeClassActivities
from activities.record.plan_inputs import PlanInputStore
from activities.rollout.statuses import RolloutStatuses
from tenon import __version__
from tenon.ec2.families.cluster import Cluster
from tenon.ec2.types.capacity import InstanceReserve
from worker.own_namespace import own_namespace
from worker.record.plan_inputs import open_plan_inputs
from worker.record.record import Record, open_record
from worker.runtime.concurrency import concurrency
from worker.runtime.temporal.activity_lanes import Activity, by_lane
from worker.runtime.temporal.activity_retries import RetryAfterInterceptor
from worker.runtime.temporal.measured_workflows import MeasureInterceptor
from worker.runtime.temporal.recorded_workflows import RecordInterceptor
from worker.runtime.temporal.teardown_worker import teardown_worker
from worker.runtime.temporal.worker_versions import deployment_config, errors_that_end_runs
from worker.settings import Settings, SettingsError
from workflows import names
from workflows.disruption import DisruptionWorkflow
from workflows.disruption_command import DisruptionCommandWorkflow
from workflows.garbage_collection import GarbageCollectionWorkflow
from workflows.node_schedule import NodeScheduleWorkflow
from workflows.nodeclaim import NodeClaimWorkflow
from workflows.nodeclass import NodeClassWorkflow
from workflows.options import COMMON, CORDONING, DRAINING, ENDING
from workflows.provisioner import ProvisionerWorkflow
from workflows.rollout import RolloutWorkflow
from workflows.teardown import TeardownWorkflow

log = loggers.INSTANCE_TYPES

WORKFLOWS: Sequence[type] = (
    NodeClaimWorkflow,
    ProvisionerWorkflow,
    DisruptionWorkflow,
    DisruptionCommandWorkflow,
    NodeClassWorkflow,
    GarbageCollectionWorkflow,
    TeardownWorkflow,
    RolloutWorkflow,
    NodeScheduleWorkflow,
)
LEASE_QPS, LEASE_BURST = 10.0, 20
GRACEFUL = timedelta(seconds=20)
BUILD_ID = __version__
"""Set explicitly, because the SDK otherwise hashes the code of every loaded module, which takes seconds."""


@dataclass(frozen=True)
class Clients:
    """The connections of one process."""

    kube: Kube
    recorder: EventRecorder
    ec2: Ec2Provider
    version: ClusterVersion
    aws: Ec2
    gate: Gate
    """Stops what ``kube`` and ``aws`` would change, while another controller leads."""
    record: Record = field(default_factory=lambda: Record([]))
    plan_inputs: PlanInputStore | None = None
    """Keeps the inputs of plans; None if no sink of the record can."""

    async def close(self) -> None:
        """Write what was recorded, and close the connection to Kubernetes. The others need no closing."""
        if self.plan_inputs is not None:
            await self.plan_inputs.close()
        await asyncio.to_thread(self.record.close)
        await self.kube.close()


async def connect(settings: Settings, process: str) -> Clients:
    """Connect to Kubernetes and EC2. ``process`` names this process in its record.

    Raises:
        SettingsError: no region is set, or PRICE_TABLE cannot be used in it.
    """
    gate = Gate()
    kube = await Kube.connect(qps=settings.kube_client_qps, burst=settings.kube_client_burst, gate=gate)
    answer = await kube.request("GET", "/version")  # fails early, with a clear error, if the address is wrong
    by_server = "" if settings.eks_control_plane else server_version(answer)
    aws = await asyncio.to_thread(Ec2, await asyncio.to_thread(region_of_environment), gate=gate)
    ec2 = await asyncio.to_thread(_ec2, aws, settings, by_server, await dns_address(kube))

    async def ask() -> str:
        if settings.eks_control_plane:
            return await asyncio.to_thread(version_by_eks, aws, settings.cluster_name)
        return server_version(await kube.request("GET", "/version"))

    recorder = EventRecorder(kube.without_gate())  # events change nothing, and say what happened
    version = ClusterVersion(ec2.cluster.kubernetes_version, ask)
    cluster = settings.cluster_name
    record = open_record(settings.record_sinks, process=process, cluster=cluster, region=aws.region)
    plan_inputs = open_plan_inputs(settings.record_sinks, cluster=cluster, region=aws.region)
    return Clients(kube, recorder, ec2, version, aws, gate, record, plan_inputs)


async def connect_for_leases() -> Kube:
    """Connect to Kubernetes for what must never wait for writes of the cluster's objects: the election, whose renewal
    must not be ten seconds late, and the checks of other controllers' Leases and of the API server.
    """
    return await Kube.connect(qps=LEASE_QPS, burst=LEASE_BURST)


def region_of_environment() -> str:
    """The AWS region, from the same variables that EKS and the AWS command line use, or from instance metadata.

    Raises:
        SettingsError: no region is set, and instance metadata does not answer.
    """
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or _region_of_instance()
    if not region:
        raise SettingsError("AWS_REGION is required: set it to the region of the cluster, such as us-west-2.")
    return region


def _region_of_instance() -> str:
    """The region of the Pod's EC2 instance; empty if its metadata is out of reach, as with a hop limit of 1."""
    session = botocore.session.get_session()
    config = {
        name: session.get_config_variable(name)
        for name in ("ec2_metadata_service_endpoint", "ec2_metadata_v1_disabled")
    }
    region = InstanceMetadataRegionFetcher(timeout=1, num_attempts=2, config=config).retrieve_region()
    if region:
        loggers.CLUSTER.info("The worker read its region from instance metadata", extra={"region": region})
    return region or ""


async def dns_address(kube: Kube) -> str:
    """The cluster address of the Service kube-dns; empty if there is none, or if the worker may not read it."""
    try:
        service = await kube.get(SERVICES, "kube-dns", "kube-system")
    except ForbiddenError as error:
        loggers.CLUSTER.warning(
            "The worker may not read the Service kube-dns: nodes use the tenth service address for DNS",
            extra={"error": str(error)},
        )
        return ""
    address = str(((service or {}).get("spec") or {}).get("clusterIP") or "")
    return "" if address == "None" else address  # a headless Service has no address


def _ec2(clients: Ec2, settings: Settings, version: str, dns_ip: str) -> Ec2Provider:
    cluster: Cluster = describe_cluster(
        clients,
        settings.cluster_name,
        endpoint=settings.cluster_endpoint,
        ca_bundle=settings.cluster_ca_bundle,
        server_version=version,
        dns_ip=dns_ip,
    )
    try:
        return Ec2Provider(
            clients,
            cluster,
            reserve=InstanceReserve(Decimal(str(settings.vm_memory_overhead_percent)), settings.reserved_enis),
            gates=settings.aws_feature_gates,
            isolated=settings.isolated_vpc,
            price_table=settings.price_table,
            reserved_capacity=settings.feature_gates.reserved_capacity,
            zonal_shift=settings.enable_zonal_shift,
            refresh=Refresh(
                settings.ami_refresh_interval,
                settings.subnet_refresh_interval,
                settings.security_group_refresh_interval,
            ),
            dry_runs=not settings.disable_dry_run,
        )
    except PriceTableError as error:
        raise SettingsError(f"PRICE_TABLE cannot be used: {error}") from None


async def warm_up(clients: Clients) -> None:
    """Load the catalogue before the first pod needs it. On a failure its first user reports the error."""
    try:
        await asyncio.to_thread(clients.ec2.catalogue.warm)
    except EC2Error as error:
        log.warning("The worker failed to read the instance types in advance", extra={"error": str(error)})


def _version(settings: Settings) -> dict[str, Any]:
    """What a worker that runs workflows says about its version."""
    config = deployment_config(settings)
    return {"build_id": BUILD_ID} if config is None else {"deployment_config": config}


def io_activities(
    settings: Settings, clients: Clients, breakers: LaunchBreakers | None = None
) -> dict[str, list[Activity]]:
    """The activities that each replica runs, by lane; without the sweep, whose timeouts are not in `OPTIONS`."""
    node = NodeActivities(
        clients.kube,
        clients.recorder,
        clients.ec2,
        settings.initialization_timeout,
        settings.default_spread(),
        breakers,
        clients.record,
        namespace=own_namespace(),
    )
    reboots = RebootActivities(clients.kube, clients.recorder, clients.ec2)
    classes = NodeClassActivities(
        clients.kube, clients.recorder, clients.ec2, clients.version, namespace=own_namespace()
    )
    return by_lane(
        [
            *node.all(),
            *reboots.all(),
            *CommandActivities(clients.kube, clients.recorder).all(),
            CommandEnd(clients.kube, clients.recorder).finish_command,
            *AwaitedReplacementActivities(clients.kube, clients.recorder).all(),
            classes.resolve,
            RolloutStatuses(clients.kube, clients.recorder).write,
            disrupt,
        ],
        {COMMON, CORDONING, DRAINING, ENDING},
    )


def io_workers(
    client: Client, settings: Settings, clients: Clients, breakers: LaunchBreakers | None = None
) -> list[Worker]:
    """The workers for workflows, EC2 calls and Kubernetes writes: one for each lane, and one for everything else.

    A node that drains or terminates holds its slot for minutes, and hundreds may be cordoned at once. The lanes keep
    such nodes from delaying launches.
    """
    activities = io_activities(settings, clients, breakers)
    garbage_collection = GarbageCollection(clients.kube, clients.recorder, clients.ec2)
    at_once = concurrency(settings.cpu_requests)
    queue = names.task_queue(settings.cluster_name)
    common = Worker(
        client,
        interceptors=[RetryAfterInterceptor(), RecordInterceptor(clients.record), MeasureInterceptor()],
        task_queue=queue,
        workflows=WORKFLOWS,
        activities=[*activities[COMMON], garbage_collection.collect],
        **_version(settings),
        max_concurrent_workflow_tasks=at_once.workflow_tasks,
        max_concurrent_activities=at_once.activities,
        max_cached_workflows=2000,
        workflow_failure_exception_types=errors_that_end_runs(settings),
        graceful_shutdown_timeout=GRACEFUL,
    )
    lanes = [
        Worker(
            client,
            interceptors=[RetryAfterInterceptor()],
            task_queue=names.lane_queue(queue, lane),
            activities=activities[lane],
            build_id=BUILD_ID,
            max_concurrent_activities=slots,
            graceful_shutdown_timeout=GRACEFUL,
        )
        for lane, slots in (
            (CORDONING, at_once.cordoning),
            (DRAINING, at_once.draining),
            (ENDING, at_once.ending),
        )
    ]
    teardown = teardown_worker(client, settings.cluster_name, clients.ec2, clients.kube, clients.record)
    return [common, *lanes, teardown]
