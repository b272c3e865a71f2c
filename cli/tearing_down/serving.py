"""A worker for a teardown: the cluster's own, or one in this process if the cluster has none any more.

Without one the teardown would wait and say nothing. With two, the cluster's own worker would buy again what ends here.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, timedelta

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client

from activities.clock import utc_now
from activities.ec2.client import Ec2
from activities.ec2.provider import Ec2Provider
from cli.tearing_down.workflow import TeardownError
from tenon.ec2.families.cluster import Cluster
from worker.runtime.assembly import region_of_environment
from worker.runtime.temporal.search_attributes import ensure_search_attributes
from worker.runtime.temporal.teardown_worker import teardown_queue, teardown_worker
from workflows import names

LIVE_WITHIN = timedelta(seconds=90)
"""A worker polls at least once a minute, so one that has not polled for so long is gone."""
RUNNING_WHY = (
    "and would buy again what ends here: leave out --local-worker, stop that worker first, or add --ignore-worker if "
    "it is cut off from the API server"
)


@asynccontextmanager
async def served(client: Client, cluster: str, *, is_local: bool, ignore_worker: bool) -> AsyncIterator[None]:
    """Make sure that a worker carries the teardown out: the cluster's, or one in this process.

    Raises:
        TeardownError: the cluster has no worker, or has one although the command should be it.
    """
    if not is_local:
        if not await is_polled(client, teardown_queue(cluster)):
            raise TeardownError(
                f"No worker of cluster {cluster} polls Temporal: check the name, start the worker, "
                "or carry the teardown out here with --local-worker."
            )
        yield
        return
    if not ignore_worker and await is_polled(client, names.task_queue(cluster)):
        raise TeardownError(f"A worker of cluster {cluster} polls Temporal, {RUNNING_WHY}.")
    await ensure_search_attributes(client)
    aws = await asyncio.to_thread(Ec2, await asyncio.to_thread(region_of_environment))
    ec2 = Ec2Provider(aws, Cluster(name=cluster, region=aws.region))
    print(f"This command carries the teardown out, from EC2's tags in {aws.region} alone.", file=sys.stderr)
    async with teardown_worker(client, cluster, ec2):
        yield


async def is_polled(client: Client, queue: str) -> bool:
    """Whether a worker that lives polls the task queue."""
    answer = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=TaskQueue(name=queue),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        )
    )
    since = utc_now() - LIVE_WITHIN
    return any(poller.last_access_time.ToDatetime(UTC) >= since for poller in answer.pollers)
