"""When the leader reads Spot placement scores, and what it does if AWS gives none."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Mapping
from typing import Any, cast

import pytest

from activities.ec2.errors import EC2Error, ThrottledError
from activities.provisioning.spot_scores import MAX_AGE, SpotScoreStore
from tenon.apis import labels
from tenon.kube.decode import decode_object
from tenon.scheduling.offerings.spot_scores import Configuration
from tests.activities.node.fake_kube import Recorder
from tests.activities.provisioning.fake_view import READY, FakeTypes
from tests.tenon.apis.case import EC2NODECLASS, NODEPOOL
from tests.tenon.scheduling.builders import pool
from tests.worker.cache.objects import metadata
from tests.worker.fake_temporal import Cache
from worker.cache.planning_view import PlanningView
from worker.controllers.nodepool.spot_scores import (
    AFTER_FAILURE,
    AFTER_RETRYABLE_FAILURE,
    DAY,
    EVERY,
    MOST_CONFIGURATIONS,
    SpotPlacementScoresController,
)

pytestmark = pytest.mark.asyncio(loop_scope="function")

NO_ANSWER = EC2Error("ConnectionError", "GetSpotPlacementScores: no route", retryable=True)
SCORES = {"usw2-az1": 3, "usw2-az2": 9}


class Region:
    """A cluster with an EC2NodeClass, AWS, a leader, and a clock."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.configurations: list[Configuration] = []
        self.error: Exception | None = None
        self.failing_types: tuple[str, ...] = ()
        """For these alone an answer cannot be read."""
        self.recorder = Recorder()
        self.store = SpotScoreStore(lambda: self.seconds)
        self.cache = Cache()
        ready = {**EC2NODECLASS, "metadata": metadata("default"), "status": {"conditions": [READY]}}
        self.cache.nodeclasses.on_event("default", decode_object(json.dumps(ready).encode()))
        view = PlanningView(self.cache)
        clock = lambda: self.seconds  # noqa: E731
        cache = cast("Any", self.cache)
        self.controller = SpotPlacementScoresController(
            self.recorder, cache, view, FakeTypes(), self.store, self, clock
        )

    def add_pool(
        self, name: str = "default", goal: str | None = "5%", types: list[str] | None = None, generation: int = 1
    ) -> None:
        body = {**copy.deepcopy(NODEPOOL), "metadata": metadata(name, generation=generation)}
        spec = body["spec"]["template"]["spec"]
        spec["nodeClassRef"]["name"] = "default"
        spec["requirements"] = []
        if types is not None:
            spec["requirements"] = [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": types}]
        if goal is not None:
            body["metadata"]["annotations"] = {labels.SPOT_PLACEMENT_SCORES: goal}
        self.cache.pools.on_event(name, decode_object(json.dumps(body).encode()))

    def read(self, configuration: Configuration) -> Mapping[str, int]:
        self.configurations.append(configuration)
        if self.error is not None:
            raise self.error
        if configuration.instance_types == self.failing_types:
            raise ValueError("not a score")
        return SCORES

    async def after(self, seconds: float) -> int:
        """How often AWS was asked after so many seconds more."""
        self.seconds += seconds
        before = len(self.configurations)
        await self.controller.reconcile(())
        return len(self.configurations) - before

    def scores(self, name: str = "default") -> Mapping[str, int]:
        return self.store.scores_of(pool(name))


async def test_scores_are_read_each_hour_for_nodepools_that_follow_them() -> None:
    region = Region()
    region.add_pool("other", goal=None)
    assert await region.after(0) == 0
    region.add_pool()
    assert await region.after(15) == 1
    assert region.scores() == SCORES
    assert region.scores("other") == {}
    assert region.configurations[0].vcpus == 32
    assert len(region.configurations[0].instance_types) > 10
    assert await region.after(EVERY - 1) == 0
    assert await region.after(1) == 1


async def test_scores_are_read_at_once_for_a_nodepool_that_changed() -> None:
    """It may allow enough types now, or others. Only new configurations count for what AWS limits."""
    region = Region()
    region.add_pool(types=["m5.large"])
    assert await region.after(0) == 0
    region.add_pool(generation=2)
    assert await region.after(15) == 1
    assert region.scores() == SCORES
    assert await region.after(15) == 0


async def test_nodepools_with_the_same_types_have_one_configuration() -> None:
    region = Region()
    region.add_pool("a")
    region.add_pool("b")
    assert await region.after(0) == 1
    assert region.scores("a") == region.scores("b") == SCORES


async def test_a_nodepool_that_stops_following_scores_has_none() -> None:
    region = Region()
    region.add_pool()
    await region.after(0)
    region.add_pool(goal="false")
    assert await region.after(EVERY) == 0
    assert region.scores() == {}


async def test_scores_that_cannot_be_read_again_count_for_three_hours() -> None:
    region = Region()
    region.add_pool()
    await region.after(0)
    region.error = EC2Error("InternalError", "not now", operation="GetSpotPlacementScores")
    await region.after(MAX_AGE - 1)
    assert region.scores() == SCORES
    await region.after(1)
    assert region.scores() == {}


async def test_a_missing_right_is_said_on_the_nodepool_and_in_one_log_line(caplog: pytest.LogCaptureFixture) -> None:
    region = Region()
    region.add_pool()
    region.error = EC2Error("UnauthorizedOperation", "You are not authorized", operation="GetSpotPlacementScores")
    caplog.set_level(logging.INFO)
    assert await region.after(0) == 1
    assert await region.after(AFTER_FAILURE - 1) == 0
    assert await region.after(1) == 1
    (event, _) = region.recorder.events
    assert event[1:3] == ("default", "SpotPlacementScoresUnknown")
    assert "Spot placement scores cannot be read, so plans soon choose zones without them" in event[3]
    assert "ec2:GetSpotPlacementScores" in event[3]
    lines = [record.getMessage() for record in caplog.records if "scores" in record.getMessage()]
    assert lines == ["The worker cannot read Spot placement scores for a NodePool"]


@pytest.mark.parametrize("error", [ThrottledError("RequestLimitExceeded", "slow down"), NO_ANSWER])
async def test_a_read_that_is_throttled_or_not_answered_is_repeated_in_a_minute(error: EC2Error) -> None:
    """Until the first scores, a NodePool that follows them buys in any zone."""
    region = Region()
    region.add_pool()
    region.error = error
    assert await region.after(0) == 1
    assert await region.after(AFTER_RETRYABLE_FAILURE - 1) == 0
    region.error = None
    assert await region.after(1) == 1
    assert region.scores() == SCORES
    assert await region.after(EVERY - 1) == 0


async def test_an_answer_that_cannot_be_read_stops_no_other_nodepool_and_is_asked_for_again() -> None:
    region = Region()
    region.add_pool("a", types=["m5.large", "m5.xlarge", "m5.2xlarge"])
    region.add_pool("b")
    region.failing_types = ("m5.2xlarge", "m5.large", "m5.xlarge")
    assert await region.after(0) == 2
    assert (region.scores("a"), region.scores("b")) == ({}, SCORES)
    region.failing_types = ()
    assert await region.after(AFTER_FAILURE) == 1
    assert region.scores("a") == SCORES


async def test_new_configurations_of_a_day_are_limited_as_aws_limits_them() -> None:
    region = Region()
    names = [f"{family}.{size}" for family in ("c5", "m5", "r5") for size in ("large", "xlarge", "2xlarge", "4xlarge")]
    for number in range(MOST_CONFIGURATIONS + 1):
        types = [names[(number + step) % 12] for step in (0, 1, 2, 3 + number // 12)]
        region.add_pool(f"p{number:02}", types=types)
    assert await region.after(0) == MOST_CONFIGURATIONS
    assert len(set(region.configurations)) == MOST_CONFIGURATIONS
    (event,) = region.recorder.events
    assert event[1] == f"p{MOST_CONFIGURATIONS}"
    assert "let fewer NodePools follow scores" in event[3]
    assert await region.after(EVERY) == MOST_CONFIGURATIONS, "those that AWS knows are no new ones"
    assert await region.after(DAY) == MOST_CONFIGURATIONS
