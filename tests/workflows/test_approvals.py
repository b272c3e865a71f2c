"""Commands that wait until a person approves them, on a real Temporal server that skips the days."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import WorkflowUpdateFailedError
from temporalio.testing import WorkflowEnvironment

from tenon.disruption.commands import approval_answers
from tenon.evolve import evolve
from tenon.messages.base import ActivityName
from tenon.messages.command_approval import ApprovalAnswer, Refusal
from tenon.messages.command_steps import DisruptInput
from tenon.messages.disruption import ApprovedReport, DisruptionCommand, Postponement, StepResult
from tests.workflows.approvable_command import (
    ANN,
    ASKING,
    DAYS,
    EMPTY,
    page_of,
    running,
    shows,
    signals_of,
    waits,
)
from tests.workflows.fake_steps import FakeSteps, command, leaves_first, reboot
from workflows import names
from workflows.disruption_command import DisruptionCommandWorkflow
from workflows.options import OPTIONS, VALIDATED_WITHIN

pytestmark = pytest.mark.integration


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
        await temporal.fast_forward(handle)
        result = await handle.result()
        (postponed,) = await signals_of(handle, "postpone")
        description = await handle.describe()
    assert steps.calls == []
    assert result.failure == "no one approved it in time"
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


@pytest.fixture
def gone_leader(cluster: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The queue of a leader that is gone. Its activities are given up soon.

    The disruption workflow says who leads now only to commands that it knows, and someone may have terminated it.
    """
    row = OPTIONS[ActivityName.VALIDATE_COMMAND]
    assert row.give_up_after == VALIDATED_WITHIN
    # The server skips no time while an activity waits for a worker.
    monkeypatch.setitem(OPTIONS, ActivityName.VALIDATE_COMMAND, replace(row, give_up_after=timedelta(seconds=0.5)))
    return names.leader_queue(cluster, "earlier")


@pytest.mark.parametrize("approved_command", [ASKING, EMPTY], ids=lambda approved_command: approved_command.id)
async def test_an_approved_command_whose_leader_is_gone_asks_the_one_that_serves(
    temporal: WorkflowEnvironment, cluster: str, approved_command: DisruptionCommand, gone_leader: str
) -> None:
    """An outage of the worker does not take a person's answer. Nothing says to the command who leads now."""
    steps = FakeSteps()
    async with running(temporal, cluster, steps, approved_command, gone_leader) as handle:
        await waits(handle)
        await handle.execute_update(DisruptionCommandWorkflow.approve, ANN)
        await shows(handle, "is approved and waits: no leader has checked within 10 minutes whether it still holds")
        assert steps.calls == []
        await temporal.fast_forward(handle, approval_answers.FIRST_RETRY)
        result = await handle.result()
    assert steps.calls[0] == "validate command"
    assert result.accepted


async def test_a_command_whose_leader_is_gone_asks_the_one_that_serves(
    temporal: WorkflowEnvironment, cluster: str, gone_leader: str
) -> None:
    steps = FakeSteps()
    async with running(temporal, cluster, steps, command(graceful=False), gone_leader) as handle:
        result = await handle.result()
    assert steps.calls[0] == "validate command"
    assert result.accepted


async def test_a_command_that_asks_no_one_ends_without_a_leader(
    temporal: WorkflowEnvironment, cluster: str, gone_leader: str
) -> None:
    steps = FakeSteps()
    async with running(temporal, cluster, steps, command(graceful=False), gone_leader, has_leader=False) as handle:
        result = await handle.result()
        (postponed,) = await signals_of(handle, "postpone")
    assert result.failure == "no leader has checked within 20 minutes whether it still holds"
    assert steps.calls == []
    assert Postponement.model_validate_json(postponed).undone == result.failure


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
    async with running(temporal, cluster, steps, command(graceful=False)) as handle:
        answer = await handle.execute_update(DisruptionCommandWorkflow.approve, ANN)
        await handle.cancel()
        await handle.result()
    assert (answer.accepted, answer.why) == (False, "it does not wait for approval")


async def test_an_operator_may_cancel_a_command_that_waits(temporal: WorkflowEnvironment, cluster: str) -> None:
    steps = FakeSteps()
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
        await temporal.fast_forward(handle)
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
        await temporal.fast_forward(handle)
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
        await temporal.fast_forward(handle)
        result = await handle.result()
    assert result.accepted == ["default-1"]
    assert result.approval is not None
    assert result.approval.by == "ann"
