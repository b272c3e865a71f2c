"""Recorded workflows replay: a deploy must not break the workflows that are open when it comes.

When one of these fails, the order of a workflow's commands changed. From release 0.1.0 on, guard the change with
``workflow.patched`` instead of recording again.
"""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Any

import pytest
from pydantic import create_model
from temporalio import workflow
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer
from temporalio.workflow import NondeterminismError, _Definition

from tenon.messages.base import ActivityName
from tenon.messages.garbage_collection import COLLECT_GARBAGE
from tenon.node import machine
from tenon.node.state import NodeClaimInput, NodeState, Stage
from tenon.node.steps import Run, Step
from tests.replay.record import SCENARIOS, recording
from worker.runtime.assembly import WORKFLOWS
from worker.runtime.temporal.temporal_plugin import TenonPlugin
from workflows import names

DEFINITIONS = {
    str(_Definition.must_from_class(workflow).name): _Definition.must_from_class(workflow) for workflow in WORKFLOWS
}
"""By name, what each workflow receives."""
NAMES = sorted(DEFINITIONS)
CONTINUES = {"NodeClaim", "Provisioner", "Disruption", "Rollout", "Teardown"}
"""The workflows that hand state to their next run."""


@cache
def _recorded(scenario: str) -> dict[str, list[dict[str, Any]]]:
    content: dict[str, list[dict[str, Any]]] = json.loads(gzip.decompress(recording(scenario).read_bytes()))
    return content


def recorded(scenario: str) -> list[WorkflowHistory]:
    """The runs of every workflow of a scenario."""
    return [WorkflowHistory.from_json(name, run) for name, runs in _recorded(scenario).items() for run in runs]


def replayer(*, guarded: bool = False, tracing: bool = False) -> Replayer:
    """A replayer that, on a busy machine, takes no activation of more than two seconds for a deadlock."""
    return Replayer(workflows=WORKFLOWS, plugins=[TenonPlugin(guarded=guarded, tracing=tracing)], debug_mode=True)


def corpus(name: str) -> list[WorkflowHistory]:
    """Every run of this type of workflow."""
    return [
        WorkflowHistory.from_json(workflow_id, run)
        for scenario in sorted(SCENARIOS)
        for workflow_id, runs in _recorded(scenario).items()
        for run in runs
        if run["events"][0]["workflowExecutionStartedEventAttributes"]["workflowType"]["name"] == name
    ]


def acts(history: WorkflowHistory) -> list[Any]:
    """The activities that a run scheduled, in order."""
    return [
        event.activity_task_scheduled_event_attributes
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]


def carried_state() -> dict[str, Any]:
    """The state with which the resting run of the whole life began, as it stands in the history."""
    started = recorded("whole-life")[1].events[0].workflow_execution_started_event_attributes
    state: dict[str, Any] = json.loads(started.input.payloads[0].data)["state"]
    return state


@pytest.mark.parametrize(
    ("guarded", "tracing"), [(False, False), (True, False), (False, True)], ids=["as-a-worker", "guarded", "traced"]
)
@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
async def test_recorded_workflows_replay(scenario: str, guarded: bool, tracing: bool) -> None:
    """Tracing adds no commands: a worker may be started with it, or without it, while workflows are open."""
    for history in recorded(scenario):
        await replayer(guarded=guarded, tracing=tracing).replay_workflow(history)


@pytest.mark.parametrize("name", NAMES)
def test_the_corpus_holds_every_message_and_end_of_a_workflow(name: str) -> None:
    """A workflow, a signal or an update that no recording holds could change unnoticed."""
    events = [event for history in corpus(name) for event in history.events]
    signals = {event.workflow_execution_signaled_event_attributes.signal_name for event in events}
    assert set(DEFINITIONS[name].signals) <= signals
    updates = {
        event.workflow_execution_update_accepted_event_attributes.accepted_request.input.name for event in events
    }
    assert set(DEFINITIONS[name].updates) <= updates
    continues = any(event.HasField("workflow_execution_continued_as_new_event_attributes") for event in events)
    assert continues or name not in CONTINUES


def test_the_corpus_holds_every_activity() -> None:
    called = {act.activity_type.name for name in NAMES for history in corpus(name) for act in acts(history)}
    assert called == {*(activity.value for activity in ActivityName), COLLECT_GARBAGE}


@pytest.mark.parametrize("name", NAMES)
async def test_replay_notices_another_step_in_every_run(name: str) -> None:
    """The history says that the last step was another one than the code takes."""
    edited = 0
    for history in corpus(name):
        if steps := acts(history):
            steps[-1].activity_type.name = "another step"
            edited += 1
            with pytest.raises(NondeterminismError):
                await replayer().replay_workflow(history)
    assert edited


@pytest.mark.parametrize("name", NAMES)
async def test_replay_notices_steps_in_another_order(name: str) -> None:
    """Two different steps that follow each other change places."""
    edited = 0
    for history in corpus(name):
        steps = acts(history)
        for first, second in itertools.pairwise(steps):
            if first.activity_type.name != second.activity_type.name:
                before, after = first.activity_type.name, second.activity_type.name
                first.activity_type.name, second.activity_type.name = after, before
                edited += 1
                with pytest.raises(NondeterminismError):
                    await replayer().replay_workflow(history)
                break
    assert edited or len({act.activity_type.name for history in corpus(name) for act in acts(history)}) == 1


def _after_a_new_command(call: Callable[..., Any]) -> Callable[..., Any]:
    def changed(*args: Any, **options: Any) -> Any:
        workflow.upsert_search_attributes([names.STAGE.value_set("new")])
        return call(*args, **options)

    return changed


@pytest.mark.parametrize("name", NAMES)
async def test_replay_notices_a_new_command_before_a_step(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code writes a search attribute before it calls an activity."""
    for function in ("start_activity", "execute_activity"):
        monkeypatch.setattr(workflow, function, _after_a_new_command(getattr(workflow, function)))
    for history in corpus(name):
        if acts(history):
            with pytest.raises(NondeterminismError):
                await replayer().replay_workflow(history)


async def test_replay_notices_a_changed_order_of_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Binding before initialization changes what the node does."""
    original = machine.next_step

    def binds_first(state: NodeState, now: datetime) -> Step:
        step = original(state, now)
        if isinstance(step, Run) and step.activity is ActivityName.INITIALIZE:
            return Run(ActivityName.BIND, step.input, step.summary)
        return step

    monkeypatch.setattr(machine, "next_step", binds_first)
    with pytest.raises(NondeterminismError):
        await replayer().replay_workflow(recorded("whole-life")[0])


async def test_replay_notices_a_stage_that_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Terminating without a drain must not pass for the recorded leave."""
    original = machine.next_step

    def never_drains(state: NodeState, now: datetime) -> Step:
        if state.stage is Stage.DRAINING:
            state = state.model_copy(update={"stage": Stage.TERMINATING})
        return original(state, now)

    monkeypatch.setattr(machine, "next_step", never_drains)
    with pytest.raises(NondeterminismError):
        await replayer().replay_workflow(recorded("whole-life")[-1])


def test_a_state_of_today_decodes_with_the_fields_of_tomorrow() -> None:
    """A newer version that only adds optional fields takes over every open workflow."""
    newer = create_model("NodeState", __base__=NodeState, repaired_at=(datetime | None, None), repairs=(int, 0))
    state = newer.model_validate(carried_state())
    assert (state.stage, state.node_name) == (Stage.LIVE, "ip-10-0-0-1")
    assert state.model_dump()["repairs"] == 0


def test_a_state_of_tomorrow_decodes_today() -> None:
    """A rollback: unknown fields of a newer version are ignored, and the node goes on."""
    begin = NodeClaimInput.model_validate(
        {
            "claim": {"cluster": "c", "name": "n", "uid": "u", "shard": 3},
            "state": {**carried_state(), "repaired_at": "2026-03-01T00:00:00Z"},
        }
    )
    assert begin.state is not None
    assert begin.state == NodeState.model_validate(carried_state())


def test_a_carried_state_is_small() -> None:
    """It is an argument of every continue-as-new: a few kilobytes, whatever happened."""
    assert len(json.dumps(carried_state())) < 4096


async def test_a_question_that_was_put_on_another_queue_replays() -> None:
    """Which leader is asked is no part of the order: another leader may serve the workflow at any time."""
    elsewhere = 0
    for name in ("Provisioner", "Disruption"):
        for history in corpus(name):
            for step in acts(history):
                step.task_queue.name += "-another"
                elsewhere += 1
            await replayer().replay_workflow(history)
    assert elsewhere
