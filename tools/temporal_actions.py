"""Counts what Temporal Cloud would bill: ``python -m tools.temporal_actions`` for the recorded histories.

With ``--address`` it counts the workflows of a namespace of a running server, such as the sandbox's after a demo. The
rules are those of Temporal's page on actions. A history does not show heartbeats, queries and rejected updates.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHistory

from activities.heartbeat import SHARE
from cli.application import create_app

app = create_app()

HISTORIES = Path("tests/replay/histories")
SDK_SHARE = 0.8
"""The share of the heartbeat timeout after which Temporal's SDK sends the next heartbeat at the earliest."""


class BilledAction(StrEnum):
    """What is billed, as the documentation names it."""

    START = "workflow starts"
    SCHEDULE = "starts by a Schedule"
    CHILD = "child workflows"
    ACTIVITY = "activities"
    LOCAL = "local activities"
    TIMER = "timers"
    SIGNAL = "signals"
    UPDATE = "updates"
    ATTRIBUTES = "search attributes"


ONE_EACH = {
    "workflow_execution_started_event_attributes": BilledAction.START,
    "activity_task_scheduled_event_attributes": BilledAction.ACTIVITY,
    "timer_started_event_attributes": BilledAction.TIMER,
    "signal_external_workflow_execution_initiated_event_attributes": BilledAction.SIGNAL,
    "workflow_execution_update_accepted_event_attributes": BilledAction.UPDATE,
    "upsert_workflow_search_attributes_event_attributes": BilledAction.ATTRIBUTES,
    "start_child_workflow_execution_initiated_event_attributes": BilledAction.CHILD,
}
"""The events that are one action each. The start of a child is a second one, in the child's own history."""
SCHEDULED_BY = "TemporalScheduledById"


def actions(events: Iterable[HistoryEvent]) -> Counter[BilledAction]:
    """Count the actions of one run by their kind."""
    counts: Counter[BilledAction] = Counter()
    marker_tasks: set[int] = set()
    for event in events:
        attributes = event.WhichOneof("attributes") or ""
        if attributes in ONE_EACH:
            counts[ONE_EACH[attributes]] += 1
        match attributes:
            case "workflow_execution_started_event_attributes":
                started = event.workflow_execution_started_event_attributes
                if SCHEDULED_BY in started.search_attributes.indexed_fields:
                    counts[BilledAction.SCHEDULE] += 2
            case "activity_task_started_event_attributes":
                counts[BilledAction.ACTIVITY] += event.activity_task_started_event_attributes.attempt - 1
            case "workflow_task_completed_event_attributes":
                metering = event.workflow_task_completed_event_attributes.metering_metadata
                counts[BilledAction.LOCAL] += metering.nonfirst_local_activity_execution_attempts
            case "marker_recorded_event_attributes":  # all of one workflow task are one action
                marker_tasks.add(event.marker_recorded_event_attributes.workflow_task_completed_event_id)
            case "workflow_execution_signaled_event_attributes":
                # What another workflow sent is counted there.
                signal = event.workflow_execution_signaled_event_attributes
                counts[BilledAction.SIGNAL] += not signal.HasField("external_workflow_execution")
    counts[BilledAction.LOCAL] += len(marker_tasks)
    return +counts


def heartbeats(timeout: timedelta, seconds: float) -> int:
    """Count the heartbeats of an activity that waits so long (`activities/heartbeat.py`)."""
    first = SHARE * timeout.total_seconds()
    if seconds < first:
        return 0
    return 1 + math.floor((seconds - first) / (SDK_SHARE * timeout.total_seconds()))


def stored_bytes(runs: Iterable[WorkflowHistory]) -> int:
    """Sum the sizes of histories as Temporal stores them, without its own overhead."""
    return sum(event.ByteSize() for run in runs for event in run.events)


def total(runs: Iterable[WorkflowHistory]) -> Counter[BilledAction]:
    """Count the actions of several runs."""
    return sum((actions(run.events) for run in runs), Counter())


def recorded(scenario: str, directory: Path = HISTORIES) -> dict[str, list[WorkflowHistory]]:
    """Read a recording of the replay corpus: the runs of each workflow, by its id, the oldest first."""
    content: dict[str, list[dict[str, Any]]] = json.loads(
        gzip.decompress((directory / f"{scenario}.json.gz").read_bytes())
    )
    return {name: [WorkflowHistory.from_json(name, run) for run in runs] for name, runs in content.items()}


async def _of_server(address: str, namespace: str, query: str) -> dict[str, list[WorkflowHistory]]:
    client = await Client.connect(address, namespace=namespace)
    histories: dict[str, list[WorkflowHistory]] = {}
    async for execution in client.list_workflows(query):
        handle = client.get_workflow_handle(execution.id, run_id=execution.run_id)
        histories.setdefault(execution.id, []).append(await handle.fetch_history())
    return histories


def _lines(histories: Mapping[str, Sequence[WorkflowHistory]]) -> Iterable[str]:
    for name, runs in sorted(histories.items()):
        counts = total(runs)
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
        yield f"{counts.total():5} actions  {stored_bytes(runs):7} bytes  {name}: {kinds}"


@app.command()
def count(
    scenario: Annotated[list[str] | None, typer.Argument(metavar="NAME ...", help="Recordings; all if none.")] = None,
    address: Annotated[str, typer.Option(metavar="HOST:PORT", help="Count on this server of Temporal.")] = "",
    namespace: Annotated[str, typer.Option(metavar="NAME", help="Its namespace.")] = "default",
    query: Annotated[str, typer.Option(metavar="QUERY", help="Which of its workflows.")] = "",
) -> None:
    """Print the billable actions and the size of each workflow."""
    if address:
        for line in _lines(asyncio.run(_of_server(address, namespace, query))):
            typer.echo(line)
        return
    for name in scenario or sorted(path.name.removesuffix(".json.gz") for path in HISTORIES.glob("*.json.gz")):
        for line in _lines(recorded(name)):
            typer.echo(line)


if __name__ == "__main__":
    app()
