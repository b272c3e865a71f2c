"""A disruption workflow whose planner decides what the test says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from temporalio import activity
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import Client, WorkflowHandle
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from tenon.messages.base import ActivityName
from tenon.messages.disruption import (
    AwaitDisruptionInput,
    DisruptionDecision,
    OpenCommand,
)
from tests.workflows.fake_steps import FakeSteps
from tests.workflows.waiting import until
from workflows import names
from workflows.disruption import DisruptionInput, DisruptionWorkflow
from workflows.disruption_command import DisruptionCommandWorkflow


class Planner(FakeSteps):
    """Gives the disruption workflow one decision after the other, and notes what it asks."""

    def __init__(self, *decisions: DisruptionDecision) -> None:
        super().__init__()
        self.decisions = list(decisions)
        self.inputs: list[AwaitDisruptionInput] = []

    @activity.defn(name=ActivityName.AWAIT_DISRUPTION)
    async def decide(self, await_disruption_input: AwaitDisruptionInput) -> DisruptionDecision:
        self.inputs.append(await_disruption_input)
        turn = len(self.inputs)

        async def over() -> bool:
            return turn != len(self.inputs) or bool(self.decisions)

        await until(over)
        return self.decisions.pop(0) if turn == len(self.inputs) else DisruptionDecision()


@asynccontextmanager
async def deciding(
    temporal: WorkflowEnvironment, cluster: str, planner: Planner, client: Client | None = None
) -> AsyncIterator[WorkflowHandle[DisruptionWorkflow, None]]:
    queue = names.task_queue(cluster)
    workflows = [DisruptionWorkflow, DisruptionCommandWorkflow]
    common = Worker(client or temporal.client, task_queue=queue, workflows=workflows, activities=planner.common())
    planning = Worker(
        temporal.client,
        task_queue=names.plan_queue(cluster),
        activities=[planner.decide, planner.validate, planner.measure, planner.foresee],
    )
    with temporal.with_time_skipping_disabled():
        async with common, planning:
            handle = await temporal.client.start_workflow(
                DisruptionWorkflow.run,
                DisruptionInput(cluster=cluster),
                id=names.disruption_id(cluster),
                task_queue=queue,
            )
            yield handle
            await handle.terminate()


async def answer(
    handle: WorkflowHandle[DisruptionWorkflow, None], planner: Planner, decision: DisruptionDecision
) -> None:
    """Answer the open call, not one that the workflow has given up."""

    async def asks() -> bool:
        await handle.query(DisruptionWorkflow.open_commands)
        calls = (await handle.describe()).raw_description.pending_activities
        return [call.state for call in calls] == [PendingActivityState.PENDING_ACTIVITY_STATE_STARTED]

    await until(asks)
    planner.decisions.append(decision)


async def entry_of(handle: WorkflowHandle[DisruptionWorkflow, None], claim: str) -> OpenCommand | None:
    open_commands: dict[str, OpenCommand] = await handle.query(DisruptionWorkflow.open_commands)
    return open_commands.get(claim)
