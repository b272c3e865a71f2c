"""Workers for a test's activities, on all the task queues that a node's life uses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from temporalio.client import Client
from temporalio.worker import Worker

from workflows import names
from workflows.nodeclaim import NodeClaimWorkflow
from workflows.options import CORDONING, DRAINING, ENDING


@asynccontextmanager
async def serving(
    client: Client, cluster: str, activities: Sequence[Callable[..., Any]], **options: Any
) -> AsyncIterator[None]:
    """Serve a cluster's nodes; the options are those of the worker that runs the workflows."""
    queue = names.task_queue(cluster)
    async with AsyncExitStack() as workers:
        await workers.enter_async_context(
            Worker(client, task_queue=queue, workflows=[NodeClaimWorkflow], activities=activities, **options)
        )
        for lane in (CORDONING, DRAINING, ENDING):
            await workers.enter_async_context(
                Worker(client, task_queue=names.lane_queue(queue, lane), activities=activities)
            )
        yield
