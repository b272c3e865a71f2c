"""What a command undoes that fails or that an operator cancels, and what stays."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from temporalio import activity
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment

from tenon.evolve import evolve
from tenon.messages.base import ActivityName
from tenon.messages.command_steps import DisruptInput
from tenon.messages.disruption import StepResult
from tests.workflows.fake_steps import FakeSteps, command
from tests.workflows.running_command import (
    ALL_STEPS,
    events_of,
    has_looked,
    postponements_of,
    running,
)
from tests.workflows.waiting import until

pytestmark = pytest.mark.integration


async def test_dis_46_a_command_that_fails_after_the_taint_leaves_its_nodes_alone_for_longer(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    steps = FakeSteps()
    steps.fails[ActivityName.TAINT_CANDIDATES] = "NodeClaim default-1 is already leaving"
    async with running(temporal, cluster, steps, command()) as handle:
        await handle.result()
        (postponed,) = await postponements_of(handle)
    assert postponed.seconds == 300


async def test_a_command_that_is_cancelled_while_it_waits_for_others_is_undone(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    changed_command = evolve(command(graceful=False, replacements=0), leaves_from=datetime.now(UTC) + timedelta(days=1))
    steps = FakeSteps()
    with temporal.with_time_skipping_disabled():
        async with running(temporal, cluster, steps, changed_command) as handle:

            async def waits_for_others() -> bool:
                return any(
                    history_event.HasField("timer_started_event_attributes")
                    for history_event in await events_of(handle)
                )

            await until(waits_for_others)
            await handle.cancel()
            result = await handle.result()
    assert result.failure == "an operator cancelled it"
    assert steps.calls == ["validate command", "taint candidates", "finish command"]


@pytest.mark.parametrize(
    "step",
    [
        ActivityName.TAINT_CANDIDATES,
        ActivityName.CREATE_REPLACEMENTS,
        ActivityName.AWAIT_REPLACEMENTS,
        ActivityName.CHECK_CANDIDATES,
    ],
    ids=lambda step: str(step.value),
)
@pytest.mark.parametrize("by", ["answer", "error"])
async def test_dis_65_a_failure_undoes_the_command_once(
    temporal: WorkflowEnvironment, cluster: str, step: ActivityName, by: str
) -> None:
    steps = FakeSteps()
    error = ApplicationError("no luck", non_retryable=True)
    steps.fails[step] = "no luck" if by == "answer" else error
    async with running(temporal, cluster, steps, command()) as handle:
        result = await handle.result()
        page = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
    assert page.current_details.splitlines()[0].endswith("; undone"), "it saves nothing"
    assert "no luck" in result.failure
    assert not result.accepted
    assert steps.calls == [*ALL_STEPS[: ALL_STEPS.index(step.value) + 1], "finish command"]
    assert [(finish_input.stay, finish_input.undo) for finish_input in steps.finished] == [
        (["default-1", "default-2"], True)
    ]


async def test_a_candidate_that_refuses_stays_and_loses_its_taint(temporal: WorkflowEnvironment, cluster: str) -> None:
    steps = FakeSteps()
    steps.refused = {"default-2": "kept until tomorrow"}
    async with running(temporal, cluster, steps, command()) as handle:
        result = await handle.result()
    assert result.accepted == ["default-1"]
    assert [(finish_input.stay, finish_input.undo) for finish_input in steps.finished] == [(["default-2"], False)]


async def test_a_candidate_that_left_for_another_reason_keeps_its_replacement(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """It expired or was deleted meanwhile. Its pods still need the new node."""
    steps = FakeSteps()
    steps.refused = {"default-1": "already leaving: Expired", "default-2": "its workflow is gone"}
    steps.leaving = ["default-1", "default-2"]
    async with running(temporal, cluster, steps, command()) as handle:
        await handle.result()
    assert [(finish_input.stay, finish_input.undo) for finish_input in steps.finished] == [([], False)]


async def test_replacements_stay_if_the_request_to_leave_fails(temporal: WorkflowEnvironment, cluster: str) -> None:
    steps = FakeSteps()
    steps.fails[ActivityName.DISRUPT] = ApplicationError("no answer", non_retryable=True)
    async with running(temporal, cluster, steps, command()) as handle:
        result = await handle.result()
    assert result.failure == "no answer"
    assert [(finish_input.stay, finish_input.undo) for finish_input in steps.finished] == [
        (["default-1", "default-2"], False)
    ]


async def test_replacements_go_if_every_candidate_refuses(temporal: WorkflowEnvironment, cluster: str) -> None:
    steps = FakeSteps()
    steps.refused = {"default-1": "kept", "default-2": "kept"}
    async with running(temporal, cluster, steps, command()) as handle:
        await handle.result()
    assert [(finish_input.stay, finish_input.undo) for finish_input in steps.finished] == [
        (["default-1", "default-2"], True)
    ]


async def test_a_cancelled_command_is_undone_while_it_waits_for_replacements(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    steps = FakeSteps()
    steps.waits = "default-new waits for its instance"
    with temporal.with_time_skipping_disabled():
        async with running(temporal, cluster, steps, command(graceful=False)) as handle:
            await until(lambda: has_looked(steps))
            await handle.cancel()
            result = await handle.result()
    assert result.failure == "an operator cancelled it"
    assert steps.calls[-2:] == ["await replacements", "finish command"]
    assert steps.finished[-1].undo


class Cancelled(FakeSteps):
    """An operator cancels the command while its candidates are tainted."""

    @activity.defn(name=ActivityName.TAINT_CANDIDATES)
    async def taint(self, disrupt_input: DisruptInput) -> StepResult:
        workflow_id = activity.info().workflow_id
        assert workflow_id is not None
        handle = activity.client().get_workflow_handle(workflow_id)
        await handle.cancel()
        await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)  # it knows by now
        return self._step(ActivityName.TAINT_CANDIDATES)


@pytest.mark.parametrize("surge", [True, False])
async def test_a_command_that_is_cancelled_during_a_step_begins_no_other(
    temporal: WorkflowEnvironment, cluster: str, surge: bool
) -> None:
    """Replacements and new pods cost money, and Deployments may take ten minutes to start theirs."""
    steps = Cancelled()
    changed_command = evolve(command(graceful=False, replacements=not surge), surge=["shop/db"] if surge else [])
    async with running(temporal, cluster, steps, changed_command) as handle:
        result = await handle.result()
    assert result.failure == "an operator cancelled it"
    assert steps.calls == ["validate command", "taint candidates", "finish command"]


async def test_a_command_that_is_cancelled_before_it_is_validated_touches_nothing(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """Its nodes are left alone for as long as after a failure: whoever cancelled it does not want it again soon."""
    steps = FakeSteps()
    with temporal.with_time_skipping_disabled():
        async with running(temporal, cluster, steps, command()) as handle:
            await handle.cancel()
            result = await handle.result()
            (postponed,) = await postponements_of(handle)
    assert (result.failure, steps.calls) == ("an operator cancelled it", [])
    assert postponed.seconds == 300
