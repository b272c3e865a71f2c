"""Counts what the workflows of a burst's nodes are in Temporal: runs, events, tasks and activities of each node."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from tenon.node.ids import CLUSTER_ATTRIBUTE, NODECLAIM_WORKFLOW

READERS = 8
LOCAL_ACTIVITY = "core_local_activity"
"""The name of the marker that the SDK records for each local activity."""
KINDS = {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED: "runs",
    EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED: "workflow_tasks",
    EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED: "activities",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED: "signals",
}


@dataclass(frozen=True, slots=True)
class PerNode:
    """Means over the nodes' workflows."""

    runs: float
    events: float
    workflow_tasks: float
    activities: float
    local_activities: float
    signals: float
    kilobytes: float
    """Size of the histories."""


async def per_node(client: Client, cluster: str) -> PerNode:
    """Read the histories of all NodeClaim workflows of a cluster."""
    query = f"{CLUSTER_ATTRIBUTE} = '{cluster}' AND WorkflowType = '{NODECLAIM_WORKFLOW}'"
    runs = [(run.id, run.run_id) async for run in client.list_workflows(query)]
    gate = asyncio.Semaphore(READERS)

    async def read(workflow: str, run: str) -> Counter[str]:
        async with gate:
            return count((await client.get_workflow_handle(workflow, run_id=run).fetch_history()).events)

    counts: Counter[str] = Counter()
    for item in await asyncio.gather(*(read(*run) for run in runs)):
        counts.update(item)
    return means(counts, len({workflow for workflow, _ in runs}))


def count(events: Iterable[Any]) -> Counter[str]:
    """Count the events of a history by kind, and their bytes."""
    counts: Counter[str] = Counter()
    for event in events:
        counts["events"] += 1
        counts["bytes"] += event.ByteSize()
        if event.event_type in KINDS:
            counts[KINDS[event.event_type]] += 1
        elif event.event_type == EventType.EVENT_TYPE_MARKER_RECORDED:
            counts["local_activities"] += event.marker_recorded_event_attributes.marker_name == LOCAL_ACTIVITY
    return counts


def means(counts: Counter[str], nodes: int) -> PerNode:
    """Divide the counts by the number of nodes."""

    def mean(subject: str) -> float:
        return round(counts[subject] / nodes, 2) if nodes else 0.0

    return PerNode(
        runs=mean("runs"),
        events=mean("events"),
        workflow_tasks=mean("workflow_tasks"),
        activities=mean("activities"),
        local_activities=mean("local_activities"),
        signals=mean("signals"),
        kilobytes=round(mean("bytes") / 1000, 1),
    )
