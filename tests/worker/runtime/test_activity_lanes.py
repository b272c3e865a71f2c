"""Each activity has a worker on the queue that workflows send it to."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest
from temporalio import activity

from tenon.messages.base import ActivityName
from tenon.node import machine
from tenon.node.state import Leave, Stage
from tenon.node.steps import End, Run
from tests.tenon.node.launched import NOW, at_live
from worker.runtime import assembly
from worker.runtime.assembly import io_activities
from worker.runtime.leader.plan_activities import PlanActivities
from worker.runtime.temporal.activity_lanes import by_lane
from worker.runtime.temporal.teardown_worker import teardown_activities
from worker.settings import Settings
from workflows.options import COMMON, CORDONING, DRAINING, ENDING, OPTIONS, PLANNING

ANSWERS: dict[ActivityName, dict[str, object]] = {
    ActivityName.DRAIN: {"drained": True, "volumes_attached": 1},
    ActivityName.DETACH_VOLUMES: {"detached": True},
    ActivityName.TERMINATE: {"terminated": True},
}
"""What the steps of a node that leaves answer, so that all of them come."""


@activity.defn(name=ActivityName.DRAIN)
async def drain() -> None:
    """Stands for the activity of that name."""


@activity.defn(name="polish node")
async def polish() -> None:
    """An activity that the table lacks."""


def test_every_activity_is_registered_in_its_lane() -> None:
    """Temporal lets a call wait without an end if no worker has its activity."""
    common = io_activities(Settings(cluster_name="prod"), MagicMock())
    assert [len(common[lane]) for lane in (CORDONING, DRAINING, ENDING)] == [2, 3, 1]
    plan = PlanActivities(*(MagicMock() for _ in range(9)))
    leading = by_lane(plan.all(), {PLANNING})[PLANNING]
    ending = teardown_activities("prod", MagicMock(), MagicMock())
    assert len(leading) + len(ending) + sum(map(len, common.values())) == len(ActivityName)


def test_a_node_that_leaves_uses_no_slot_that_a_launch_needs() -> None:
    """Hundreds of nodes may leave at once: a NodePool is deleted, or a zone is evacuated."""
    state = at_live(stage=Stage.CORDONING, leave=Leave(reason="drain", asked_at=NOW))
    steps = []
    while not isinstance(step := machine.next_step(state, NOW), End):
        assert isinstance(step, Run)
        steps.append(step.activity)
        state = machine.apply(state, OPTIONS[step.activity].result(**ANSWERS.get(step.activity, {})), NOW)
    assert len(steps) == 5
    assert [step for step in steps if OPTIONS[step].lane == COMMON] == []


def test_each_lane_has_a_worker_with_slots_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = MagicMock()
    monkeypatch.setattr(assembly, "Worker", worker)
    monkeypatch.setattr(assembly, "teardown_worker", MagicMock())
    assembly.io_workers(MagicMock(), Settings(cluster_name="prod", cpu_requests=1000), MagicMock())
    assert {call.kwargs["task_queue"]: call.kwargs["max_concurrent_activities"] for call in worker.mock_calls} == {
        "tenon-prod": 200,
        "tenon-prod-cordoning": 200,
        "tenon-prod-draining": 200,
        "tenon-prod-ending": 500,
    }


def test_a_forgotten_activity_is_named() -> None:
    with pytest.raises(TypeError, match="no worker runs the activity await volume detachment"):
        by_lane([drain], {DRAINING})


@pytest.mark.parametrize(("activities", "lane"), [([drain, drain], DRAINING), ([drain], ENDING), ([polish], COMMON)])
def test_an_activity_in_another_lane_twice_or_without_options_is_refused(activities: list[object], lane: str) -> None:
    with pytest.raises(TypeError, match="is registered twice, or has no row of its lane in OPTIONS"):
        by_lane(activities, {lane})  # type: ignore[arg-type]
