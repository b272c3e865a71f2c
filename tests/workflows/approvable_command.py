"""A disruption command that waits for a person, with simulated steps."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment

from tenon.apis.reasons import Reason
from tenon.evolve import evolve
from tenon.messages.command_approval import AwaitsApproval
from tenon.messages.command_steps import CommandProgress
from tenon.messages.disruption import DisruptionCommand
from tenon.messages.node import Operator
from tests.workflows import running_command
from tests.workflows.fake_steps import FakeSteps, command
from tests.workflows.running_command import Handle
from tests.workflows.waiting import until
from workflows.disruption_command import DisruptionCommandWorkflow

DAYS = AwaitsApproval(seconds=timedelta(days=4).total_seconds())
ANN = Operator(by="ann", reason="seen in staging", ticket="OPS-12")
ASKING = evolve(command(graceful=False), approval=DAYS)
EMPTY = evolve(
    command(replacements=0), id="empty-1", reason=Reason.EMPTY, moves_pods=False, only_if_empty=True, approval=DAYS
)


@asynccontextmanager
async def running(
    temporal: WorkflowEnvironment,
    cluster: str,
    steps: FakeSteps,
    asking_command: DisruptionCommand = ASKING,
    plan_queue: str = "",
    *,
    has_leader: bool = True,
) -> AsyncIterator[Handle]:
    """The workflow of a command that asks, with workers for it. It skips time only in `fast_forward`.

    Otherwise the server skips the days in which an answer may come before a test has given it.
    """
    with temporal.with_time_skipping_disabled():
        async with running_command.running(
            temporal, cluster, steps, asking_command, plan_queue, has_leader=has_leader
        ) as handle:
            yield handle


async def signals_of(handle: Handle, name: str) -> list[bytes]:
    events = (await handle.fetch_history()).events
    attributes = [event.signal_external_workflow_execution_initiated_event_attributes for event in events]
    return [signal.input.payloads[0].data for signal in attributes if signal.signal_name == name]


async def progress_of(handle: Handle) -> CommandProgress:
    answer: CommandProgress = await handle.query(DisruptionCommandWorkflow.progress)
    return answer


async def page_of(handle: Handle) -> str:
    page = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
    return str(page.current_details)


async def shows(handle: Handle, text: str) -> None:
    """Wait until the page of the workflow has a text."""

    async def has_text() -> bool:
        return text in await page_of(handle)

    await until(has_text)


async def waits(handle: Handle) -> None:
    async def asks() -> bool:
        try:
            return (await progress_of(handle)).approve_until is not None
        except RPCError:  # it does not run yet
            return False

    await until(asks)
