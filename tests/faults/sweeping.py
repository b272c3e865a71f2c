"""Garbage collection by hand: what an operator does who presses "trigger" on the Schedule in Temporal's UI."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from temporalio.client import Client, ScheduleActionExecutionStartWorkflow, ScheduleActionResult, ScheduleOverlapPolicy

from tenon.messages.garbage_collection import GarbageCollectionInput, GarbageCollectionResult
from tests.workflows.waiting import until
from workflows import names
from workflows.garbage_collection import GarbageCollectionWorkflow, garbage_collection_id, schedule_id


@asynccontextmanager
async def only_by_hand(client: Client, cluster: str) -> AsyncIterator[None]:
    """Pause the Schedule meanwhile, as an operator may: no sweep runs or begins but those of `sweep`.

    A sweep begins by itself soon after a Node stopped reporting. What it ends is missing in the report of a sweep by
    hand, which also waits for that one to end, while what is still in its grace grows older.
    """
    schedule = client.get_schedule_handle(schedule_id(cluster))

    async def idle() -> bool:
        return not (await schedule.describe()).info.running_actions

    await schedule.pause(note="a test sweeps by hand")
    try:
        await until(idle)
        yield
    finally:
        await schedule.unpause()


async def sweep(client: Client, cluster: str) -> GarbageCollectionResult:
    """Trigger the Schedule, wait for the sweep that this began, and return its report."""
    schedule = client.get_schedule_handle(schedule_id(cluster))
    before = await _latest(client, cluster)
    begun: list[ScheduleActionResult] = []

    async def new_one() -> bool:
        schedule_action_result = await _latest(client, cluster)
        begun[:] = (
            []
            if schedule_action_result is None or (before is not None and schedule_action_result == before)
            else [schedule_action_result]
        )
        return bool(begun)

    await schedule.trigger(overlap=ScheduleOverlapPolicy.BUFFER_ONE)
    await until(new_one)
    action = begun[0].action
    assert isinstance(action, ScheduleActionExecutionStartWorkflow)
    handle = client.get_workflow_handle(
        action.workflow_id, run_id=action.first_execution_run_id, result_type=GarbageCollectionResult
    )
    report: GarbageCollectionResult = await handle.result()
    return report


async def confirmed_sweep(client: Client, cluster: str, findings: int) -> GarbageCollectionResult:
    """Sweep as a person does who confirms what the last sweep held back, and return the report."""
    return await client.execute_workflow(
        GarbageCollectionWorkflow.run,
        GarbageCollectionInput(cluster=cluster, confirmed=findings),
        id=f"{garbage_collection_id(cluster)}-confirmed",
        task_queue=names.task_queue(cluster),
    )


async def _latest(client: Client, cluster: str) -> ScheduleActionResult | None:
    recent = (await client.get_schedule_handle(schedule_id(cluster)).describe()).info.recent_actions
    return recent[-1] if recent else None
