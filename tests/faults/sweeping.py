"""Housekeeping by hand: what an operator does who presses "trigger" on the Schedule in Temporal's UI."""

from __future__ import annotations

from temporalio.client import Client, ScheduleActionExecutionStartWorkflow, ScheduleActionResult, ScheduleOverlapPolicy

from tenon.housekeeping.messages import HousekeepingResult
from tests.workflows.waiting import until
from workflows.housekeeping import schedule_id


async def sweep(client: Client, cluster: str) -> HousekeepingResult:
    """Trigger the Schedule, wait for the sweep that this began, and return its report."""
    schedule = client.get_schedule_handle(schedule_id(cluster))
    before = await _latest(client, cluster)
    begun: list[ScheduleActionResult] = []

    async def new_one() -> bool:
        found = await _latest(client, cluster)
        begun[:] = [] if found is None or (before is not None and found == before) else [found]
        return bool(begun)

    await schedule.trigger(overlap=ScheduleOverlapPolicy.BUFFER_ONE)
    await until(new_one)
    action = begun[0].action
    assert isinstance(action, ScheduleActionExecutionStartWorkflow)
    handle = client.get_workflow_handle(
        action.workflow_id, run_id=action.first_execution_run_id, result_type=HousekeepingResult
    )
    report: HousekeepingResult = await handle.result()
    return report


async def _latest(client: Client, cluster: str) -> ScheduleActionResult | None:
    recent = (await client.get_schedule_handle(schedule_id(cluster)).describe()).info.recent_actions
    return recent[-1] if recent else None
