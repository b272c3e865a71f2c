"""Commands that wait until a person approves them, on a real Temporal server that skips the days."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from temporalio import activity
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import Client, WorkflowHandle, WorkflowUpdateFailedError
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from tenon.apis.reasons import Reason
from tenon.evolve import evolve
from tenon.messages.base import QUIET_POLL_SECONDS, ActivityName
from tenon.messages.disruption import (
    ApprovalAnswer,
    ApprovedReport,
    AwaitDisruptionInput,
    AwaitsApproval,
    CommandProgress,
    DisruptInput,
    DisruptionCommand,
    DisruptionDecision,
    DisruptResult,
    OpenCommand,
    Postponement,
    Refusal,
    StepResult,
)
from tenon.messages.node import Operator
from tests.workflows.fake_steps import FakeSteps, command, leaves_first, reboot
from tests.workflows.waiting import until
from workflows import names
from workflows.disruption import DisruptionInput, DisruptionWorkflow
from workflows.disruption_command import DisruptionCommandWorkflow

pytestmark = pytest.mark.integration

Handle = WorkflowHandle[DisruptionCommandWorkflow, DisruptResult]
DAYS = AwaitsApproval(seconds=timedelta(days=4).total_seconds())
ANN = Operator(by="ann", reason="seen in staging", ticket="OPS-12")
ASKING = evolve(command(graceful=False), approval=DAYS)
EMPTY = evolve(
    command(replacements=0), id="empty-1", reason=Reason.EMPTY, moves_pods=False, only_if_empty=True, approval=DAYS
)


@asynccontextmanager
async def running(
    temporal: WorkflowEnvironment, cluster: str, steps: FakeSteps, asking_command: DisruptionCommand = ASKING
) -> AsyncIterator[Handle]:
    queue = names.task_queue(cluster)
    common = Worker(temporal.client, task_queue=queue, workflows=[DisruptionCommandWorkflow], activities=steps.common())
    planner = Worker(temporal.client, task_queue=names.plan_queue(cluster), activities=[steps.validate, steps.measure])
    async with common, planner:
        yield await temporal.client.start_workflow(
            DisruptionCommandWorkflow.run,
            DisruptInput(cluster=cluster, command=asking_command),
            id=names.command_id(cluster, asking_command.id),
            task_queue=queue,
        )


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


async def waits(handle: Handle) -> None:
    async def asks() -> bool:
        try:
            return (await progress_of(handle)).approve_until is not None
        except RPCError:  # it does not run yet
            return False

    await until(asks)


async def test_a_command_waits_three_days_for_one_timer_and_is_carried_out_when_it_is_approved(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    steps = FakeSteps()
    async with running(temporal, cluster, steps) as handle:
        await waits(handle)
        await temporal.fast_forward(handle, timedelta(days=3))
        assert steps.calls == [], "it has touched nothing, not even the taint"
        page = await page_of(handle)
        assert "tenon approve underutilized-1" in page
        assert "waits for approval until" in page
        before = (await handle.fetch_history()).events
        assert [event for event in before if event.HasField("activity_task_scheduled_event_attributes")] == []
        assert len([event for event in before if event.HasField("timer_started_event_attributes")]) == 1
        answer = await handle.execute_update(DisruptionCommandWorkflow.approve, ANN)
        result = await handle.result()
        (report,) = await signals_of(handle, "approved")
        page = await page_of(handle)
    assert answer.accepted
    assert steps.calls[:2] == ["validate command", "taint candidates"]
    assert result.accepted == ["default-1", "default-2"]
    assert result.approval is not None
    assert (result.approval.answer, result.approval.by) == (ApprovalAnswer.APPROVED, "ann")
    assert "ann approved it: seen in staging, OPS-12" in page
    assert "tenon approve" not in page, "what it asked for is answered"
    assert ApprovedReport.model_validate_json(report) == ApprovedReport(
        command="underutilized-1", claims=["default-1", "default-2"], moves_pods=True
    )


@pytest.mark.parametrize("hours", [None, 48])
async def test_a_refused_command_touches_nothing_and_its_nodes_are_left_alone(
    temporal: WorkflowEnvironment, cluster: str, hours: int | None
) -> None:
    steps = FakeSteps()
    refusal: dict[str, Any] = {"by": "ann", "reason": "release in progress", **({"hours": hours} if hours else {})}
    async with running(temporal, cluster, steps) as handle:
        await waits(handle)
        await handle.execute_update("refuse", refusal)  # as Temporal's UI sends it
        result = await handle.result()
        (postponed,) = await signals_of(handle, "postpone")
    assert steps.calls == []
    assert result.failure == "ann refused it: release in progress"
    assert Postponement.model_validate_json(postponed) == Postponement(
        claims=["default-1", "default-2"],
        seconds=(hours or 24) * 3600,
        refused=result.failure,
        command="underutilized-1",
    )


async def test_a_command_that_nobody_answers_is_refused_when_its_time_is_over(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    steps = FakeSteps()
    async with running(temporal, cluster, steps) as handle:
        result = await handle.result()
        (postponed,) = await signals_of(handle, "postpone")
        description = await handle.describe()
    assert steps.calls == []
    assert result.failure == "nobody approved it in time"
    assert result.approval is not None
    assert result.approval.answer is ApprovalAnswer.UNANSWERED
    assert Postponement.model_validate_json(postponed).seconds == 3600, "then a new command may ask"
    assert description.close_time is not None
    assert description.close_time - description.start_time >= timedelta(days=4)


async def test_a_command_that_does_not_hold_any_more_when_it_is_approved_says_why(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    steps = FakeSteps()
    steps.fails[ActivityName.VALIDATE_COMMAND] = "NodeClaim default-1 is gone"
    async with running(temporal, cluster, steps) as handle:
        await waits(handle)
        await temporal.fast_forward(handle, timedelta(days=1))
        await handle.execute_update(DisruptionCommandWorkflow.approve, ANN)
        result = await handle.result()
        approved = await signals_of(handle, "approved")
    assert steps.calls == ["validate command"]
    assert (result.failure, approved) == ("NodeClaim default-1 is gone", [])
    assert result.approval is not None
    assert result.approval.by == "ann"


async def test_a_command_is_withdrawn_when_nothing_asks_for_it_any_more(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    steps = FakeSteps()
    async with running(temporal, cluster, steps) as handle:
        await waits(handle)
        await handle.signal(DisruptionCommandWorkflow.withdraw, "NodeClaim default-1 is gone")
        result = await handle.result()
        postponed = await signals_of(handle, "postpone")
    assert result.failure == "it was withdrawn before it was approved: NodeClaim default-1 is gone"
    assert (steps.calls, postponed) == ([], [])


async def test_an_answer_says_who_and_comes_once(temporal: WorkflowEnvironment, cluster: str) -> None:
    steps = FakeSteps()
    steps.waits = "default-new waits for its instance"
    with temporal.with_time_skipping_disabled():
        async with running(temporal, cluster, steps) as handle:
            await waits(handle)
            with pytest.raises(WorkflowUpdateFailedError) as refused:
                await handle.execute_update("approve", {"reason": "no name"})
            assert "Say who asks" in str(refused.value.cause)
            with pytest.raises(WorkflowUpdateFailedError) as refused:
                await handle.execute_update("refuse", {"by": "ann", "hours": 9999})
            assert "hours" in str(refused.value.cause)
            assert (await handle.execute_update(DisruptionCommandWorkflow.approve, ANN)).accepted
            second = await handle.execute_update(DisruptionCommandWorkflow.refuse, Refusal(by="bob", reason="no"))
            await handle.cancel()
            await handle.result()
    assert not second.accepted
    assert second.why == "it has its answer: ann approved it: seen in staging, OPS-12"


async def test_a_command_that_asks_nobody_refuses_an_answer(temporal: WorkflowEnvironment, cluster: str) -> None:
    steps = FakeSteps()
    steps.waits = "default-new waits for its instance"
    with temporal.with_time_skipping_disabled():
        async with running(temporal, cluster, steps, command(graceful=False)) as handle:
            answer = await handle.execute_update(DisruptionCommandWorkflow.approve, ANN)
            await handle.cancel()
            await handle.result()
    assert (answer.accepted, answer.why) == (False, "it does not wait for approval")


async def test_an_operator_may_cancel_a_command_that_waits(temporal: WorkflowEnvironment, cluster: str) -> None:
    steps = FakeSteps()
    with temporal.with_time_skipping_disabled():
        async with running(temporal, cluster, steps) as handle:
            await waits(handle)
            await handle.cancel(reason="not now")
            result = await handle.result()
    assert (result.failure, steps.calls) == ("an operator cancelled it: not now", [])


class FullBudgets(FakeSteps):
    """The budgets allow the command only after some validations."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    @activity.defn(name=ActivityName.VALIDATE_COMMAND)
    async def validate(self, disrupt_input: DisruptInput) -> StepResult:
        self.calls.append("validate command")
        full = self.calls.count("validate command") <= self.times
        return StepResult(waits="the budgets of NodePool default do not allow it any more" if full else "")


async def test_an_approved_command_waits_for_the_budgets(temporal: WorkflowEnvironment, cluster: str) -> None:
    steps = FullBudgets(3)
    async with running(temporal, cluster, steps) as handle:
        await waits(handle)
        await handle.execute_update(DisruptionCommandWorkflow.approve, ANN)
        result = await handle.result()
    assert result.accepted == ["default-1", "default-2"]
    assert steps.calls[:5] == [*["validate command"] * 4, "taint candidates"]


async def test_an_approved_command_does_not_wait_for_budgets_for_ever(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    steps = FullBudgets(1000)
    async with running(temporal, cluster, steps) as handle:
        await waits(handle)
        await handle.execute_update(DisruptionCommandWorkflow.approve, ANN)
        result = await handle.result()
    assert result.failure == "it was approved, but the budgets of NodePool default do not allow it any more"
    assert len(steps.calls) < 60


async def test_approved_empty_nodes_are_looked_at_again(temporal: WorkflowEnvironment, cluster: str) -> None:
    """Only those that are still empty are asked to leave."""
    steps = FakeSteps()
    steps.instead = evolve(EMPTY, candidates=EMPTY.candidates[:1])
    async with running(temporal, cluster, steps, EMPTY) as handle:
        await waits(handle)
        await handle.execute_update(DisruptionCommandWorkflow.approve, ANN)
        result = await handle.result()
        (report,) = await signals_of(handle, "approved")
    assert steps.calls == ["validate command", "disrupt nodes"]
    assert result.accepted == ["default-1"]
    assert ApprovedReport.model_validate_json(report).claims == ["default-1"]


@pytest.mark.parametrize("asking_command", [reboot(), leaves_first()], ids=["reboot", "leaves-first"])
async def test_every_kind_of_command_waits_before_it_acts(
    temporal: WorkflowEnvironment, cluster: str, asking_command: DisruptionCommand
) -> None:
    steps = FakeSteps()
    async with running(temporal, cluster, steps, evolve(asking_command, approval=DAYS)) as handle:
        await waits(handle)
        await temporal.fast_forward(handle, timedelta(days=1))
        assert steps.calls == []
        await handle.execute_update(DisruptionCommandWorkflow.approve, ANN)
        result = await handle.result()
    assert result.accepted == ["default-1"]
    assert result.approval is not None
    assert result.approval.by == "ann"


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
        activities=[planner.decide, planner.validate, planner.measure],
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


async def test_the_list_of_open_commands_knows_what_waits_was_approved_and_was_refused(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    planner = Planner(DisruptionDecision(commands=[ASKING]))
    planner.waits = "default-new waits for its instance"
    other = evolve(ASKING, id="underutilized-2")
    async with deciding(temporal, cluster, planner) as handle:

        async def waiting() -> bool:
            entry = await entry_of(handle, "default-1")
            return entry is not None and entry.awaits_approval

        await until(waiting)
        entry = await entry_of(handle, "default-1")
        assert entry is not None
        assert (entry.due, entry.is_idle) == (None, True)

        async def asked_again() -> bool:
            return len(planner.inputs) > 1

        await until(asked_again)
        assert planner.inputs[-1].wait_seconds == QUIET_POLL_SECONDS, "a wait for a person costs no calls"
        page = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
        assert "1 command waits for approval" in page.current_details
        child = temporal.client.get_workflow_handle_for(
            DisruptionCommandWorkflow.run, names.command_id(cluster, ASKING.id)
        )
        await waits(child)
        await child.execute_update(DisruptionCommandWorkflow.approve, ANN)

        async def under_way() -> bool:
            return not await waiting()

        await until(under_way)
        entry = await entry_of(handle, "default-1")
        assert entry is not None
        assert (entry.postponed, entry.is_idle) == (False, False)
        await child.cancel()
        await child.result()

        async def said_undone() -> bool:
            page = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
            return f"(workflow {child.id}): undone: an operator cancelled it" in page.current_details

        await until(said_undone)
        await answer(handle, planner, DisruptionDecision(commands=[other]))
        await until(waiting)
        second = temporal.client.get_workflow_handle_for(
            DisruptionCommandWorkflow.run, names.command_id(cluster, other.id)
        )
        await waits(second)
        await second.execute_update(DisruptionCommandWorkflow.refuse, Refusal(by="ann", reason="not now"))

        async def refused() -> bool:
            entry = await entry_of(handle, "default-2")
            return entry is not None and entry.refused == "ann refused it: not now"

        await until(refused)
        entry = await entry_of(handle, "default-2")
        assert entry is not None
        assert (entry.postponed, entry.awaits_approval) == (True, False)


async def test_a_waiting_command_hears_that_its_node_is_gone_or_that_another_command_takes_it(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    second = evolve(ASKING, id="underutilized-2")
    empty = evolve(EMPTY, candidates=EMPTY.candidates[:1], approval=None)
    planner = Planner()
    goes, is_taken = DisruptionDecision(finished_claims=["default-1"]), DisruptionDecision(commands=[empty])
    async with deciding(temporal, cluster, planner) as handle:
        for asking_command, end in ((ASKING, goes), (second, is_taken)):
            ident = asking_command.id
            for decision in (DisruptionDecision(commands=[asking_command]), end):
                await answer(handle, planner, decision)
            child = temporal.client.get_workflow_handle_for(
                DisruptionCommandWorkflow.run, names.command_id(cluster, ident)
            )

            async def ended(child: Handle = child) -> bool:
                try:
                    return (await child.describe()).close_time is not None
                except RPCError:
                    return False

            await until(ended)
            result = await child.result()
            assert result.failure == (
                "it was withdrawn before it was approved: "
                "NodeClaim default-1 is gone, leaves, or does not need it any more"
            )
        entry = await entry_of(handle, "default-1")
        assert entry is not None
        assert (entry.command, entry.postponed) == ("empty-1", False), "the end of the other command does not touch it"
        assert await entry_of(handle, "default-2") is None
