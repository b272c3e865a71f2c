"""Each activity has a worker on the queue that workflows send it to."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest
from temporalio import activity

from tenon.messages.base import ActivityName
from worker.runtime.assembly import io_activities
from worker.runtime.leader.plan_activities import PlanActivities
from worker.runtime.temporal.activity_lanes import by_lane
from worker.runtime.temporal.teardown_worker import teardown_activities
from worker.settings import Settings
from workflows.options import COMMON, DRAINING, ENDING, PLANNING

LANES = {COMMON, DRAINING, ENDING}


@activity.defn(name=ActivityName.DRAIN)
async def drain() -> None:
    """Stands for the activity of that name."""


@activity.defn(name="polish node")
async def polish() -> None:
    """An activity that the table lacks."""


def test_every_activity_is_registered_in_its_lane() -> None:
    """Temporal lets a call wait without an end if no worker has its activity."""
    common = io_activities(Settings(cluster_name="prod"), MagicMock())
    assert (len(common[DRAINING]), len(common[ENDING])) == (3, 1)
    plan = PlanActivities(*(MagicMock() for _ in range(9)))
    leading = by_lane(plan.all(), {PLANNING})[PLANNING]
    ending = teardown_activities("prod", MagicMock(), MagicMock())
    assert len(leading) + len(ending) + sum(map(len, common.values())) == len(ActivityName)


def test_a_forgotten_activity_is_named() -> None:
    with pytest.raises(TypeError, match="no worker runs the activity await volume detachment"):
        by_lane([drain], {DRAINING})


@pytest.mark.parametrize(("activities", "lane"), [([drain, drain], DRAINING), ([drain], ENDING), ([polish], COMMON)])
def test_an_activity_in_another_lane_twice_or_without_options_is_refused(activities: list[object], lane: str) -> None:
    with pytest.raises(TypeError, match="is registered twice, or has no row of its lane in OPTIONS"):
        by_lane(activities, {lane})  # type: ignore[arg-type]
