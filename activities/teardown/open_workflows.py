"""Ends the open workflows of a cluster, which could otherwise buy nodes, or wait for ever for a worker."""

from __future__ import annotations

import asyncio

from temporalio import activity
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from activities.heartbeat import paced_heartbeat
from activities.kubernetes.bounded_concurrency import bounded
from tenon.messages.base import ActivityName
from tenon.messages.teardown import EndedWorkflows, EndWorkflowsInput

CONCURRENCY = 20
PAUSE = 1.0


@activity.defn(name=ActivityName.END_WORKFLOWS)
async def end_workflows(end_input: EndWorkflowsInput) -> EndedWorkflows:
    """End the workflows of a teardown's cluster. The teardown itself is on a task queue of its own."""
    count = await end_open_workflows(
        activity.client(), end_input.task_queue, end_input.schedule, end_input.schedules_prefix, end_input.why
    )
    return EndedWorkflows(count=count)


async def end_open_workflows(client: Client, task_queue: str, schedule: str, schedules_prefix: str, why: str) -> int:
    """Terminate all open workflows of the task queue, and delete Schedules. Return how many workflows there were.

    The Schedules are the one of this id, and all whose ids begin with the prefix, unless that is empty.

    It lists workflows until none are left, because Temporal's visibility store is eventually consistent.
    """
    beat = paced_heartbeat()
    await _delete_schedule(client, schedule)
    if schedules_prefix:
        listing = await client.list_schedules()
        for schedule_id in [item.id async for item in listing if item.id.startswith(schedules_prefix)]:
            await _delete_schedule(client, schedule_id)
    query = f'TaskQueue = "{task_queue}" AND ExecutionStatus = "Running"'
    ended: set[str] = set()
    while workflow_ids := [workflow.id async for workflow in client.list_workflows(query)]:
        await bounded(workflow_ids, CONCURRENCY, lambda workflow_id: _terminate(client, workflow_id, why))
        ended.update(workflow_ids)
        beat()
        await asyncio.sleep(PAUSE)
    return len(ended)


async def _terminate(client: Client, workflow_id: str, why: str) -> None:
    try:
        await client.get_workflow_handle(workflow_id).terminate(reason=why)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise


async def _delete_schedule(client: Client, schedule_id: str) -> None:
    try:
        await client.get_schedule_handle(schedule_id).delete()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
