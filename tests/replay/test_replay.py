"""Recorded lives replay: a deploy must not break the workflows that are open when it comes.

When one of these fails, the order of a workflow's commands changed. Guard the change with ``workflow.patched`` instead
of recording again.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest
from pydantic import create_model
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer
from temporalio.workflow import NondeterminismError, _Definition

from tenon.lifecycle import machine
from tenon.lifecycle.messages.base import ActivityName
from tenon.lifecycle.state import NodeClaimInput, NodeState, Stage
from tenon.lifecycle.steps import Run, Step
from tests.replay.record import SCENARIOS, happened, played
from tests.replay.sandbox_scenarios import SCENARIOS as HAPPENED
from worker.runtime.assembly import WORKFLOWS
from worker.runtime.temporal_plugin import TenonPlugin
from workflows import names

EXPECTED_RUNS = {
    "whole-life": 2,
    "local-steps": 2,
    "rests-after-a-minute": 2,
    "force-drain": 2,
    "no-capacity": 1,
    "keep": 3,
    "deleted-while-joining": 1,
    "cancelled": 2,
    "not-empty-after-all": 3,
    "never-joins": 1,
    "instance-gone": 2,
    "taken-up-again": 2,
    "disruption-taint": 3,
    "not-managed": 2,
    "refused": 1,
    "expired-waits": 4,
    "expired-leaves": 2,
}


def recorded(scenario: str) -> list[WorkflowHistory]:
    """The runs of a played scenario's node."""
    workflow_id = names.nodeclaim_id(scenario, "default-x1")
    runs: list[dict[str, Any]] = json.loads(played(scenario).read_text(encoding="utf-8"))
    return [WorkflowHistory.from_json(workflow_id, run) for run in runs]


def from_sandbox(scenario: str) -> list[WorkflowHistory]:
    """The runs of every workflow that a sandbox had, closed or open."""
    workflows: dict[str, list[dict[str, Any]]] = json.loads(happened(scenario).read_text(encoding="utf-8"))
    return [WorkflowHistory.from_json(workflow_id, run) for workflow_id, runs in workflows.items() for run in runs]


def replayer(*, guarded: bool = False) -> Replayer:
    return Replayer(workflows=WORKFLOWS, plugins=[TenonPlugin(guarded=guarded)])


def kind(history: WorkflowHistory) -> str:
    """The type of the workflow."""
    return history.events[0].workflow_execution_started_event_attributes.workflow_type.name


def carried_state() -> dict[str, Any]:
    """The state with which the resting run of the whole life began, as it stands in the history."""
    started = recorded("whole-life")[1].events[0].workflow_execution_started_event_attributes
    state: dict[str, Any] = json.loads(started.input.payloads[0].data)["state"]
    return state


@pytest.mark.parametrize("guarded", [False, True], ids=["as-a-worker", "guarded"])
@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
async def test_recorded_lives_replay(scenario: str, guarded: bool) -> None:
    histories = recorded(scenario)
    assert len(histories) == EXPECTED_RUNS[scenario]
    for history in histories:
        await replayer(guarded=guarded).replay_workflow(history)


@pytest.mark.parametrize("scenario", sorted(HAPPENED))
async def test_what_happened_on_a_sandbox_replays(scenario: str) -> None:
    """All workflows of a cluster, the cluster's own and those of its nodes and classes."""
    histories = from_sandbox(scenario)
    assert {"NodeClaim", "Provisioner", "Disruption", "NodeClass", "Housekeeping"} <= {kind(h) for h in histories}
    for history in histories:
        await replayer().replay_workflow(history)


def test_every_workflow_is_in_the_corpus() -> None:
    """A workflow that no recording holds could change unnoticed."""
    found = {kind(history) for scenario in HAPPENED for history in from_sandbox(scenario)}
    assert found == {_Definition.must_from_class(workflow).name for workflow in WORKFLOWS}


async def test_replay_notices_a_changed_order_of_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Binding before initialization would be another life: the recorded one must refuse it."""
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
        await replayer().replay_workflow(recorded("whole-life")[1])


async def test_replay_notices_a_new_activity_before_a_life_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """An addition breaks open workflows just as a removal does."""
    original = machine.next_step

    def looks_twice(state: NodeState, now: datetime) -> Step:
        step = original(state, now)
        if isinstance(step, Run) and step.activity is ActivityName.TERMINATE and not state.volumes_attached:
            return Run(ActivityName.DETACH_VOLUMES, step.input, step.summary)
        return step

    monkeypatch.setattr(machine, "next_step", looks_twice)
    with pytest.raises(NondeterminismError):
        await replayer().replay_workflow(recorded("whole-life")[1])


def test_a_state_of_today_decodes_with_the_fields_of_tomorrow() -> None:
    """A newer version that only adds optional fields takes over every open life."""
    newer = create_model("NodeState", __base__=NodeState, repaired_at=(datetime | None, None), repairs=(int, 0))
    state = newer.model_validate(carried_state())
    assert (state.stage, state.node_name) == (Stage.LIVE, "ip-10-0-0-1")
    assert state.model_dump()["repairs"] == 0


def test_a_state_of_tomorrow_decodes_today() -> None:
    """A rollback: unknown fields of a newer version are ignored, the life goes on."""
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
    """Which leader is asked differs between versions of this code, and a version passes the workflow to another."""
    elsewhere = 0
    for history in from_sandbox("a-pod-comes-and-goes"):
        for event in history.events:
            queue = event.activity_task_scheduled_event_attributes.task_queue
            if kind(history) in ("Provisioner", "Disruption") and queue.name.endswith("-plan"):
                queue.name += "-another"
                elsewhere += 1
        await replayer().replay_workflow(history)
    assert elsewhere
