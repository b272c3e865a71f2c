"""Reconciles the sweeps' Schedule: creates it, updates it if it differs, and triggers it when a leader starts."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionExecutionStartWorkflow,
    ScheduleActionStartWorkflow,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    WorkflowExecutionStatus,
)
from temporalio.common import SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError

from activities import loggers
from tenon.garbage_collection import page
from tenon.messages.garbage_collection import GarbageCollectionResult
from worker.runtime.temporal import temporal_schedules
from workflows import names
from workflows.garbage_collection import GarbageCollectionWorkflow, garbage_collection_id, schedule_id

log = loggers.GARBAGE_COLLECTION

EVERY = timedelta(minutes=30)
"""A sweep costs four billed actions. Unless the cluster is quiet, the leader starts more sweeps
(`worker/controllers/garbage_collection/sweeps.py`)."""
CATCH_UP = timedelta(minutes=1)
"""Sweeps missed during an outage are not caught up on, because the next sweep finds the same."""
JITTER_SHARE = 10
"""The jitter is the interval divided by this number, so that clusters of one namespace do not sweep together."""
RESYNC = 600.0
"""Seconds until the Schedule is checked again, in case someone deleted it."""
RETRY = 15.0


async def ensure_schedule(client: Client, cluster: str, every: timedelta = EVERY) -> bool:
    """Create or correct the Schedule. Returns whether that took a change. An operator's pause is kept."""
    return (await temporal_schedules.ensure_schedule(client, schedule_id(cluster), _schedule(cluster, every))).changed


async def sweep_now(client: Client, cluster: str) -> None:
    """Start a sweep, unless one is running or an operator paused the Schedule."""
    handle = client.get_schedule_handle(schedule_id(cluster))
    if not (await handle.describe()).schedule.state.paused:
        await handle.trigger(overlap=ScheduleOverlapPolicy.SKIP)


async def sweep_has_left_work(client: Client, cluster: str) -> bool:
    """Whether the last sweep failed, or left something to the next one. None of these calls is billed."""
    description = await client.get_schedule_handle(schedule_id(cluster)).describe()
    if not description.info.recent_actions:
        return True
    action = description.info.recent_actions[-1].action
    assert isinstance(action, ScheduleActionExecutionStartWorkflow)
    handle = client.get_workflow_handle(
        action.workflow_id, run_id=action.first_execution_run_id, result_type=GarbageCollectionResult
    )
    if (await handle.describe()).status is not WorkflowExecutionStatus.COMPLETED:
        return True
    result = await handle.result()
    pending_work = (result.unread, result.faults, result.failed, result.left_since, result.held_back)
    return any(pending_work) or any(row.put_off or row.failed for row in result.figures.values())


async def reconcile_schedule(client: Client, cluster: str, every: timedelta = EVERY) -> None:
    """Sweep once now, then reconcile the Schedule until cancelled."""
    begun = False
    while True:
        try:
            changed = await ensure_schedule(client, cluster, every)
            if changed:
                log.info("The worker wrote the sweeps' Schedule", extra={"cluster": cluster, "interval": str(every)})
            if not begun:
                await sweep_now(client, cluster)
                begun = True
            pause = RESYNC
        except RPCError as error:
            log.warning(
                "The worker failed to reconcile the sweeps' Schedule and retries", extra={"error": error.message}
            )
            pause = RETRY
        await asyncio.sleep(pause)


def _schedule(cluster: str, every: timedelta) -> Schedule:
    return Schedule(
        action=ScheduleActionStartWorkflow(
            GarbageCollectionWorkflow.run,
            page.first_input(cluster),
            id=garbage_collection_id(cluster),
            task_queue=names.task_queue(cluster),
            typed_search_attributes=TypedSearchAttributes([SearchAttributePair(names.CLUSTER, cluster)]),
            static_summary="ends or repairs what was lost",
            static_details=page.ABOUT,
        ),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=every)], jitter=every / JITTER_SHARE),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=CATCH_UP),
    )
