"""Reconciles the sweeps' Schedule: creates it, updates it if it differs, and triggers it when a leader starts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from temporalio.api.common.v1 import Payload
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionExecutionStartWorkflow,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleUpdate,
    ScheduleUpdateInput,
    WorkflowExecutionStatus,
)
from temporalio.common import SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError

from activities import loggers
from tenon.messages.garbage_collection import GarbageCollectionInput, GarbageCollectionResult
from worker.runtime.encrypted_payloads import KEY_ID, PayloadCodecError
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
    schedule = _schedule(cluster, every)
    try:
        await client.create_schedule(schedule_id(cluster), schedule)
    except ScheduleAlreadyRunningError:
        return await _update_schedule(client, cluster, schedule)
    return True


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


async def _update_schedule(client: Client, cluster: str, schedule: Schedule) -> bool:
    changed = False
    essence = await _compared_fields(client, schedule)

    async def update(update_input: ScheduleUpdateInput) -> ScheduleUpdate | None:
        nonlocal changed
        present = update_input.description.schedule
        if await _compared_fields(client, present) == essence:
            return None
        changed = True
        schedule.state = present.state
        return ScheduleUpdate(schedule=schedule)

    await client.get_schedule_handle(schedule_id(cluster)).update(update)
    return changed


def _schedule(cluster: str, every: timedelta) -> Schedule:
    return Schedule(
        action=ScheduleActionStartWorkflow(
            GarbageCollectionWorkflow.run,
            GarbageCollectionInput(cluster=cluster),
            id=garbage_collection_id(cluster),
            task_queue=names.task_queue(cluster),
            typed_search_attributes=TypedSearchAttributes([SearchAttributePair(names.CLUSTER, cluster)]),
            static_summary="what was lost",
        ),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=every)], jitter=every / JITTER_SHARE),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=CATCH_UP),
    )


async def _compared_fields(client: Client, schedule: Schedule) -> tuple[object, ...]:
    """The fields that must match. The server may rewrite the others."""
    action = schedule.action
    assert isinstance(action, ScheduleActionStartWorkflow)
    # A description holds the encoded arguments, as the server stores them.
    encoded = [argument for argument in action.args if isinstance(argument, Payload)]
    encoded = encoded or list(await client.data_converter.encode(action.args))
    return (
        action.workflow,
        action.id,
        action.task_queue,
        [argument.data for argument in await _decrypted(client, encoded)],
        # Also the key, so that the Schedule changes to a new one before the old one is removed.
        [(argument.metadata.get("encoding"), argument.metadata.get(KEY_ID)) for argument in encoded],
        [argument.every for argument in schedule.spec.intervals],
        schedule.spec.jitter,
        schedule.policy.overlap,
        schedule.policy.catchup_window,
    )


async def _decrypted(client: Client, encoded: Sequence[Payload]) -> Sequence[Payload]:
    """The payloads without their encryption, which gives equal payloads different bytes."""
    codec = client.data_converter.payload_codec
    try:
        return encoded if codec is None else await codec.decode(encoded)
    except PayloadCodecError:  # their key is gone: what can be read replaces them
        return encoded
