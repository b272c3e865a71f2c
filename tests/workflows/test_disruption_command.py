"""A disruption command that moves pods, on a real Temporal server: its order, and that each failure undoes it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from temporalio import activity
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import WorkflowHandle
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from tenon.apis.reasons import Reason
from tenon.evolve import evolve
from tenon.messages.base import ActivityName
from tenon.messages.disruption import (
    DisruptInput,
    DisruptionCommand,
    DisruptResult,
    MeasuredSaving,
    Postponement,
    Replacement,
    StepResult,
)
from tests.workflows.fake_steps import FakeSteps, command, reboot
from tests.workflows.waiting import until
from workflows import names
from workflows.disruption_command import DisruptionCommandWorkflow

pytestmark = pytest.mark.integration

Handle = WorkflowHandle[DisruptionCommandWorkflow, DisruptResult]


@asynccontextmanager
async def running(
    temporal: WorkflowEnvironment, cluster: str, steps: FakeSteps, disruption_command: DisruptionCommand
) -> AsyncIterator[Handle]:
    """The workflow of a command, with workers for it."""
    queue = names.task_queue(cluster)
    common = Worker(temporal.client, task_queue=queue, workflows=[DisruptionCommandWorkflow], activities=steps.common())
    planner = Worker(temporal.client, task_queue=names.plan_queue(cluster), activities=[steps.validate, steps.measure])
    async with common, planner:
        yield await temporal.client.start_workflow(
            DisruptionCommandWorkflow.run,
            DisruptInput(cluster=cluster, command=disruption_command),
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


async def test_dis_60_a_command_prepares_replaces_looks_again_and_only_then_removes(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    steps = FakeSteps()
    async with running(temporal, cluster, steps, command()) as handle:
        result = await handle.result()
    assert result.accepted == ["default-1", "default-2"]
    assert steps.calls == ALL_STEPS
    assert [(finish_input.stay, finish_input.undo) for finish_input in steps.finished] == [([], False)]


@pytest.mark.parametrize(("refused", "signals"), [({}, []), ({"default-2": "kept"}, ["settled"])])
async def test_a_command_for_empty_nodes_only_asks_them_to_leave(
    temporal: WorkflowEnvironment, cluster: str, refused: dict[str, str], signals: list[str]
) -> None:
    """The disruption workflow hears which of them refused. The page says why, and what the others cost."""
    steps = FakeSteps()
    steps.refused, steps.prices = refused, {"default-1": 0.1, "default-2": 0.2}
    changed_command = evolve(
        command(replacements=0), reason=Reason.EMPTY, moves_pods=False, only_if_empty=True, explanation=[]
    )
    async with running(temporal, cluster, steps, changed_command) as handle:
        result = await handle.result()
        assert await signals_of(handle) == signals
        page = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
        found_by = (await handle.describe()).typed_search_attributes
    assert (steps.calls, result.refused) == (["disrupt nodes"], refused)
    saved = 0.1 if refused else 0.3
    assert f"asked {'1 node' if refused else '2 nodes'} to leave, {saved:.4f} USD/h" in page.current_details
    assert "They have no pods that need another node, since 20" in page.current_details
    assert found_by[names.SAVING] == pytest.approx(saved)


async def test_a_command_without_replacements_waits_for_none(temporal: WorkflowEnvironment, cluster: str) -> None:
    steps = FakeSteps()
    async with running(temporal, cluster, steps, command(replacements=0)) as handle:
        await handle.result()
    assert steps.calls == [step for step in ALL_STEPS if "replacements" not in step]


@pytest.mark.parametrize("fails", [False, True], ids=["goes-on", "is-undone"])
async def test_dis_03_a_command_goes_on_with_the_replacements_that_its_validation_gives(
    temporal: WorkflowEnvironment, cluster: str, *, fails: bool
) -> None:
    """Its last step, and its undoing, are about what was created, not about what was decided at first."""
    steps = FakeSteps()
    other = Replacement(name="default-other", pool="default", body={})
    steps.instead = evolve(command(), replacements=[other])
    if fails:
        steps.fails[ActivityName.AWAIT_REPLACEMENTS] = "NodeClaim default-other is gone"
    async with running(temporal, cluster, steps, command(replacements=0)) as handle:
        result = await handle.result()
    assert bool(result.failure) == fails
    assert steps.created == ["default-other"]
    (finished,) = steps.finished
    assert ([replacement.name for replacement in finished.command.replacements], finished.undo) == (
        ["default-other"],
        fails,
    )


async def test_dis_46_a_command_that_does_not_hold_any_more_touches_nothing(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    steps = FakeSteps()
    steps.fails[ActivityName.VALIDATE_COMMAND] = "a pod came or went"
    async with running(temporal, cluster, steps, command()) as handle:
        result = await handle.result()
        (postponed,) = await postponements_of(handle)
    assert result.failure == "a pod came or went"
    assert steps.calls == ["validate command"]
    soon = Postponement(claims=["default-1", "default-2"], seconds=30, undone="a pod came or went")
    assert postponed == soon, "its nodes are tried again soon"


async def test_dis_46_a_command_that_fails_after_the_taint_leaves_its_nodes_alone_for_longer(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    steps = FakeSteps()
    steps.fails[ActivityName.TAINT_CANDIDATES] = "NodeClaim default-1 is already leaving"
    async with running(temporal, cluster, steps, command()) as handle:
        await handle.result()
        (postponed,) = await postponements_of(handle)
    assert postponed.seconds == 300


@pytest.mark.parametrize("graceful", [True, False], ids=["graceful", "eventual"])
async def test_dis_46_only_a_graceful_command_waits_before_it_is_validated(
    temporal: WorkflowEnvironment, cluster: str, graceful: bool
) -> None:
    async with running(temporal, cluster, FakeSteps(), command(graceful=graceful)) as handle:
        await handle.result()
        history = await handle.fetch_history()
    timers = [event for event in history.events if event.HasField("timer_started_event_attributes")]
    waited = [event.timer_started_event_attributes.start_to_fire_timeout.ToTimedelta() for event in timers]
    assert waited == [timedelta(seconds=15)] * graceful


async def test_dis_65_the_replacements_of_a_command_have_ten_minutes(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    steps = FakeSteps()
    async with running(temporal, cluster, steps, command(graceful=False)) as handle:
        await handle.result()
        events = {event.event_id: event for event in (await handle.fetch_history()).events}
    (activity_task_scheduled_event_attribute,) = (
        event.activity_task_scheduled_event_attributes
        for event in events.values()
        if event.activity_task_scheduled_event_attributes.activity_type.name == ActivityName.AWAIT_REPLACEMENTS
    )
    decided = events[
        activity_task_scheduled_event_attribute.workflow_task_completed_event_id
    ].workflow_task_completed_event_attributes
    began = events[decided.started_event_id].event_time.ToDatetime(UTC)
    rounded = timedelta(milliseconds=1)  # the server counts nanoseconds
    assert abs(steps.until - began - timedelta(minutes=10)) < rounded


async def test_dis_65_replacements_that_are_not_ready_in_time_fail_the_command(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """Even if every signal about them is lost, the command looks at them once a minute."""
    steps = FakeSteps()
    steps.waits = "default-new waits for its instance"
    async with running(temporal, cluster, steps, command(graceful=False)) as handle:
        result = await handle.result()
        timers = [
            history_event
            for history_event in await events_of(handle)
            if history_event.HasField("timer_fired_event_attributes")
        ]
    assert result.failure == "its replacements were not initialized in time: default-new waits for its instance"
    assert steps.calls == [*ALL_STEPS[:3], *["await replacements"] * 11, "finish command"]
    assert len(timers) == 10


async def test_dis_63_a_command_waits_for_a_signal_and_holds_no_activity(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """A waiting activity would hold a worker slot that launching the replacements needs."""
    steps = FakeSteps()
    steps.waits = "default-new waits for its instance"
    with temporal.with_time_skipping_disabled():
        async with running(temporal, cluster, steps, command(graceful=False)) as handle:

            async def waits() -> bool:
                page = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
                return steps.waits in page.current_details

            await until(waits)
            description = await handle.describe()
            assert not description.raw_description.pending_activities
            assert steps.calls[3:] == ["await replacements"]
            for looks in (2, 3):
                await until(partial(_waits, handle, looks - 1))
                await handle.signal(DisruptionCommandWorkflow.replacement_changed, "default-new")
                await until(partial(_looked, steps, looks))
            steps.waits = ""
            await handle.signal(DisruptionCommandWorkflow.replacement_changed, "default-new")
            result = await handle.result()
    assert result.accepted == ["default-1", "default-2"]
    assert steps.calls == [*ALL_STEPS[:3], *["await replacements"] * 4, *ALL_STEPS[4:]]


async def _waits(handle: Handle, times: int) -> bool:
    """Whether it has begun so many waits, each with a timer."""
    return (
        sum(history_event.HasField("timer_started_event_attributes") for history_event in await events_of(handle))
        >= times
    )


async def _looked(steps: FakeSteps, times: int = 1) -> bool:
    return steps.calls.count("await replacements") >= times


async def test_commands_of_one_pass_evict_their_pods_together(temporal: WorkflowEnvironment, cluster: str) -> None:
    """A pod that is evicted earlier goes to a node that another of them has not tainted yet, and keeps it."""
    at = datetime.now(UTC) + timedelta(minutes=5)
    changed_command = evolve(command(replacements=0), leaves_from=at)
    steps = FakeSteps()
    async with running(temporal, cluster, steps, changed_command) as handle:
        await handle.result()
        times = await scheduled(handle)
    assert steps.calls == [step for step in ALL_STEPS if "replacements" not in step]
    assert times["taint candidates"] < at <= times["check candidates"]


async def test_a_command_does_not_wait_for_a_time_that_is_over(temporal: WorkflowEnvironment, cluster: str) -> None:
    changed_command = evolve(command(), leaves_from=datetime.now(UTC))
    async with running(temporal, cluster, FakeSteps(), changed_command) as handle:
        await handle.result()
        timers = [
            history_event
            for history_event in await events_of(handle)
            if history_event.HasField("timer_started_event_attributes")
        ]
    assert len(timers) == 1, "only the one before its validation"


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


async def scheduled(handle: Handle) -> dict[str, datetime]:
    """When each activity was scheduled."""
    return {
        history_event.activity_task_scheduled_event_attributes.activity_type.name: history_event.event_time.ToDatetime(
            UTC
        )
        for history_event in await events_of(handle)
        if history_event.HasField("activity_task_scheduled_event_attributes")
    }


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
    async with running(temporal, cluster, steps, evolve(command(), saving=0.3)) as handle:
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
    steps.refused = {"default-1": "already leaving: expired", "default-2": "its workflow is gone"}
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
            await until(lambda: _looked(steps))
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


@pytest.mark.parametrize(
    ("reason", "signals"), [(Reason.UNDERUTILIZED, ["postpone", "saved"]), (Reason.DRIFTED, ["postpone"])]
)
async def test_wsh02_a_command_says_what_it_saves_and_what_was_predicted(
    temporal: WorkflowEnvironment, cluster: str, reason: Reason, signals: list[str]
) -> None:
    """On its page and in its result. Only consolidation is judged by it."""
    steps = FakeSteps()
    steps.refused = {"default-2": "kept until tomorrow"}
    steps.savings = {
        "default": MeasuredSaving(predicted=0.2, reached=0.15),
        "other": MeasuredSaving(predicted=0.1, reached=-0.01),
    }
    changed_command = evolve(command(), reason=reason.value)
    async with running(temporal, cluster, steps, changed_command) as handle:
        result = await handle.result()
        page = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
        found_by = (await handle.describe()).typed_search_attributes
    assert result.accepted == ["default-1"]
    assert found_by[names.SAVING] == pytest.approx(0.14)
    assert result.saving == MeasuredSaving(predicted=0.3, reached=0.14)
    assert steps.calls == ALL_STEPS
    assert steps.measured == [["default-1"]]
    assert "saves 0.1400 USD/h; 0.3000 USD/h was predicted" in page.current_details
    assert await signals_of(handle) == signals


async def test_wsh02_a_node_that_left_for_another_reason_counts_for_what_a_command_saves(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """Its replacement stays, and its price was part of the prediction."""
    steps = FakeSteps()
    steps.refused, steps.leaving = {"default-2": "already leaving: expired"}, ["default-2"]
    async with running(temporal, cluster, steps, command()) as handle:
        await handle.result()
    assert steps.measured == [["default-1", "default-2"]]


@pytest.mark.parametrize("fails", [False, True], ids=["no-price", "error"])
async def test_wsh02_a_command_whose_saving_is_not_known_still_ends_well(
    temporal: WorkflowEnvironment, cluster: str, fails: bool
) -> None:
    steps = FakeSteps()
    if fails:
        steps.fails[ActivityName.MEASURE_SAVING] = ApplicationError("no prices", non_retryable=True)
    async with running(temporal, cluster, steps, command()) as handle:
        result = await handle.result()
    assert (result.accepted, result.saving, result.failure) == (["default-1", "default-2"], None, "")
    assert await signals_of(handle) == []


async def test_wsh02_a_command_that_is_undone_saves_nothing_and_is_not_measured(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    steps = FakeSteps()
    steps.refused = {"default-1": "kept", "default-2": "kept"}
    async with running(temporal, cluster, steps, evolve(command(), saving=0.3)) as handle:
        result = await handle.result()
        found_by = (await handle.describe()).typed_search_attributes
    assert result.saving is None
    assert steps.measured == []
    assert found_by[names.SAVING] == 0.0


@pytest.mark.parametrize("fails", [False, True])
async def test_wsh16_new_pods_start_on_the_new_nodes_before_the_old_nodes_leave(
    temporal: WorkflowEnvironment, cluster: str, fails: bool
) -> None:
    steps = FakeSteps()
    if fails:
        steps.fails[ActivityName.SURGE] = "Deployment shop/db has not replaced its pods in time"
    async with running(temporal, cluster, steps, evolve(command(), surge=["shop/db"])) as handle:
        result = await handle.result()
    done = [*ALL_STEPS[:4], "start new pods first"]
    assert steps.calls == ([*done, "finish command"] if fails else [*done, *ALL_STEPS[4:]])
    assert bool(result.failure) is fails


async def test_n15_153_a_reboot_is_validated_and_requested_and_nothing_else(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """No taint, no replacement, nothing to undo, and no savings."""
    steps = FakeSteps()
    async with running(temporal, cluster, steps, reboot()) as handle:
        result = await handle.result()
    assert (result.accepted, result.saving) == (["default-1"], None)
    assert steps.calls == ["validate command", "request reboot"]


async def test_n15_153_a_reboot_that_does_not_hold_any_more_is_not_requested(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    steps = FakeSteps()
    steps.fails[ActivityName.VALIDATE_COMMAND] = "the node needs another repair than a reboot by now"
    async with running(temporal, cluster, steps, reboot()) as handle:
        result = await handle.result()
    assert result.failure == "the node needs another repair than a reboot by now"
    assert steps.calls == ["validate command"]


async def test_n15_135_a_repair_is_validated_at_once_and_undone_as_other_commands(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    steps = FakeSteps()
    steps.fails[ActivityName.AWAIT_REPLACEMENTS] = "replacement default-new is gone"
    repair = evolve(command(graceful=False), reason=Reason.UNHEALTHY, repair=reboot().repair)
    async with running(temporal, cluster, steps, repair) as handle:
        result = await handle.result()
    assert result.failure == "replacement default-new is gone"
    assert steps.calls == [*ALL_STEPS[:4], "finish command"]
    assert [finish_input.undo for finish_input in steps.finished] == [True]
