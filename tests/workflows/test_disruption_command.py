"""A disruption command that moves pods, on a real Temporal server: its steps, their order, and how long it waits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.testing import WorkflowEnvironment

from tenon.apis.reasons import Reason
from tenon.evolve import evolve
from tenon.messages.base import ActivityName
from tenon.messages.disruption import (
    Postponement,
    Replacement,
)
from tests.workflows.fake_steps import FakeSteps, command, reboot
from tests.workflows.running_command import (
    ALL_STEPS,
    events_of,
    has_begun_waits,
    has_looked,
    postponements_of,
    running,
    scheduled,
    signals_of,
)
from tests.workflows.waiting import until
from workflows import names
from workflows.disruption_command import DisruptionCommandWorkflow

pytestmark = pytest.mark.integration


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
        command(replacements=0), reason=Reason.EMPTY, moves_pods=False, only_if_empty=True, explanation=[], predicted=0
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
    soon = Postponement(
        claims=["default-1", "default-2"], seconds=30, command=command().id, undone="a pod came or went"
    )
    assert postponed == soon, "its nodes are tried again soon"


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
                await until(partial(has_begun_waits, handle, looks - 1))
                await handle.signal(DisruptionCommandWorkflow.replacement_changed, "default-new")
                await until(partial(has_looked, steps, looks))
            steps.waits = ""
            await handle.signal(DisruptionCommandWorkflow.replacement_changed, "default-new")
            result = await handle.result()
    assert result.accepted == ["default-1", "default-2"]
    assert steps.calls == [*ALL_STEPS[:3], *["await replacements"] * 4, *ALL_STEPS[4:]]


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
    """No taint, no replacement, nothing to undo, and no savings. Its page offers no cancellation any more."""
    steps = FakeSteps()
    async with running(temporal, cluster, steps, reboot()) as handle:
        result = await handle.result()
        page = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
    assert "Request Cancellation" not in page.current_details
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
