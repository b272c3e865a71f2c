"""A disruption command with simulated steps on a real Temporal server, and what its history says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHandle
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from tenon.messages.command_steps import DisruptInput
from tenon.messages.disruption import DisruptionCommand, DisruptResult, Postponement
from tests.workflows.fake_steps import FakeSteps
from workflows import names
from workflows.disruption_command import DisruptionCommandWorkflow

Handle = WorkflowHandle[DisruptionCommandWorkflow, DisruptResult]


@asynccontextmanager
async def running(
    temporal: WorkflowEnvironment,
    cluster: str,
    steps: FakeSteps,
    disruption_command: DisruptionCommand,
    plan_queue: str = "",
    *,
    has_leader: bool = True,
) -> AsyncIterator[Handle]:
    """The workflow of a command, with workers for it. ``plan_queue``: of a leader that is gone.

    ``has_leader``: whether another one serves the queue that leaders share.
    """
    queue = names.task_queue(cluster)
    common = Worker(temporal.client, task_queue=queue, workflows=[DisruptionCommandWorkflow], activities=steps.common())
    planner = Worker(temporal.client, task_queue=names.plan_queue(cluster), activities=[steps.validate, steps.measure])
    async with common, planner if has_leader else nullcontext():
        yield await temporal.client.start_workflow(
            DisruptionCommandWorkflow.run,
            DisruptInput(cluster=cluster, command=disruption_command, plan_queue=plan_queue),
            id=names.command_id(cluster, disruption_command.id),
            task_queue=queue,
        )


ALL_STEPS = [
    "validate command",
    "taint candidates",
    "create replacements",
    "await replacements",
    "check candidates",
    "disrupt nodes",
    "finish command",
    "measure saving",
]


async def has_begun_waits(handle: Handle, times: int) -> bool:
    """Whether it has begun so many waits, each with a timer."""
    return (
        sum(history_event.HasField("timer_started_event_attributes") for history_event in await events_of(handle))
        >= times
    )


async def has_looked(steps: FakeSteps, times: int = 1) -> bool:
    """Whether it has looked at its replacements so many times."""
    return steps.calls.count("await replacements") >= times


async def scheduled(handle: Handle) -> dict[str, datetime]:
    """When each activity was scheduled."""
    return {
        history_event.activity_task_scheduled_event_attributes.activity_type.name: history_event.event_time.ToDatetime(
            UTC
        )
        for history_event in await events_of(handle)
        if history_event.HasField("activity_task_scheduled_event_attributes")
    }


async def signals_of(handle: Handle) -> list[str]:
    """The signals that the command sent."""
    signals = [event.signal_external_workflow_execution_initiated_event_attributes for event in await events_of(handle)]
    return [signal.signal_name for signal in signals if signal.signal_name]


async def postponements_of(handle: Handle) -> list[Postponement]:
    """What the command asked the disruption workflow to leave alone."""
    signals = [event.signal_external_workflow_execution_initiated_event_attributes for event in await events_of(handle)]
    return [
        Postponement.model_validate_json(signal.input.payloads[0].data)
        for signal in signals
        if signal.signal_name == "postpone"
    ]


async def events_of(handle: Handle) -> list[HistoryEvent]:
    return list((await handle.fetch_history()).events)
