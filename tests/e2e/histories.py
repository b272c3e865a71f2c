"""What a workflow's histories hold, over all its runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

_BILLED = {
    "WORKFLOW_EXECUTION_STARTED": "starts, continue-as-new included",
    "TIMER_STARTED": "timers",
    "WORKFLOW_EXECUTION_SIGNALED": "signals received",
    "SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED": "signals sent",
    "WORKFLOW_EXECUTION_UPDATE_ACCEPTED": "updates",
    "UPSERT_WORKFLOW_SEARCH_ATTRIBUTES": "search attribute upserts",
    "START_CHILD_WORKFLOW_EXECUTION_INITIATED": "child starts",
}


def kind(event: HistoryEvent) -> str:
    """The type of an event without its prefix."""
    return EventType.Name(event.event_type).removeprefix("EVENT_TYPE_")


async def runs_of(client: Client, workflow_id: str, first_run_id: str) -> list[list[HistoryEvent]]:
    """The events of each run, from the first run along the chain of continue-as-new."""
    runs: list[list[HistoryEvent]] = []
    run_id = first_run_id
    while run_id:
        handle = client.get_workflow_handle(workflow_id, run_id=run_id)
        events = [event async for event in handle.fetch_history_events()]
        runs.append(events)
        run_id = events[-1].workflow_execution_continued_as_new_event_attributes.new_execution_run_id
    return runs


def fault_of(event: HistoryEvent) -> str:
    """What went wrong with the code in a history's event, empty for anything else."""
    return failed_run(event) or failed_task(event)


def failed_run(event: HistoryEvent) -> str:
    """Why the run failed with this event, empty if it did not."""
    if not event.HasField("workflow_execution_failed_event_attributes"):
        return ""
    return event.workflow_execution_failed_event_attributes.failure.message


def failed_task(event: HistoryEvent) -> str:
    """Why a workflow task failed with this event, empty if none did.

    A task whose result came too late, because a signal arrived meanwhile, is made again by the server and no fault.
    """
    if not event.HasField("workflow_task_failed_event_attributes"):
        return ""
    failed = event.workflow_task_failed_event_attributes
    cause = WorkflowTaskFailedCause.Name(failed.cause)
    return "" if cause == "WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND" else f"{cause}: {failed.failure.message}"


def activities(events: Sequence[HistoryEvent]) -> list[str]:
    """The names of the activities that were scheduled, and of the local ones, in their order."""
    names: list[str] = []
    for event in events:
        if kind(event) == "ACTIVITY_TASK_SCHEDULED":
            names.append(event.activity_task_scheduled_event_attributes.activity_type.name)
        elif _is_local_activity(event):
            data = event.marker_recorded_event_attributes.details["data"].payloads[0].data
            names.append(json.loads(data)["activity_type"])
    return names


def _is_local_activity(event: HistoryEvent) -> bool:
    return (
        kind(event) == "MARKER_RECORDED" and event.marker_recorded_event_attributes.marker_name == "core_local_activity"
    )


def billable(events: Sequence[HistoryEvent]) -> Counter[str]:
    """Actions that Temporal Cloud bills, by what they are; each try of an activity counts. Heartbeats are not seen."""
    counts: Counter[str] = Counter()
    for event in events:
        name = kind(event)
        if name in _BILLED:
            counts[_BILLED[name]] += 1
        elif _is_local_activity(event):
            counts["local activities"] += 1
        elif name == "ACTIVITY_TASK_STARTED":
            counts["activity tries"] += event.activity_task_started_event_attributes.attempt
    return counts
