"""How often the leader sweeps: as the setting says while something changes, and more rarely in a quiet cluster."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, cast

import pytest

from tests.worker.background import in_background
from tests.worker.cache.objects import claim, node
from tests.worker.fake_temporal import Cache
from worker.controllers.garbage_collection.sweeps import QUIET_AFTER, SweepController, quiet_interval

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]

EVERY = timedelta(minutes=10)
MINUTE = 60.0


class Sweeps:
    """Counts the sweeps. ``left_work``: whether the last one left something."""

    def __init__(self) -> None:
        self.count = 0
        self.left_work = False

    async def sweep(self) -> None:
        self.count += 1

    async def has_left_work(self) -> bool:
        return self.left_work


@contextlib.asynccontextmanager
async def sweeping(cache: Cache) -> AsyncIterator[Sweeps]:
    sweeps = Sweeps()
    controller = SweepController(cast("Any", cache), EVERY, sweeps.sweep, sweeps.has_left_work)
    async with in_background(controller.run()):
        await asyncio.sleep(1)
        yield sweeps


async def test_a_leader_sweeps_until_the_cluster_is_quiet_for_longer_than_each_grace_period() -> None:
    async with sweeping(Cache()) as sweeps:
        await asyncio.sleep(QUIET_AFTER.total_seconds())
        in_the_first_hour = sweeps.count
        assert in_the_first_hour == 6
        await asyncio.sleep(24 * 60 * MINUTE)
        assert sweeps.count == in_the_first_hour


async def test_a_change_of_a_node_or_nodeclaim_brings_the_sweeps_back() -> None:
    cache = Cache()
    async with sweeping(cache) as sweeps:
        await asyncio.sleep(24 * 60 * MINUTE)
        quiet = sweeps.count
        cache.publish(claim("a", node_name="a"), node("a"))
        await asyncio.sleep(30 * MINUTE)
        assert sweeps.count - quiet == 3


@pytest.mark.parametrize(("minutes", "quiet"), [(1, 3), (10, 30), (20, 30), (60, 60)])
async def test_a_quiet_cluster_is_swept_before_the_alert_about_missing_sweeps(minutes: int, quiet: int) -> None:
    """It comes after an hour. A setting that is longer holds."""
    assert quiet_interval(timedelta(minutes=minutes)) == timedelta(minutes=quiet)


async def test_what_a_sweep_left_is_not_left_for_longer_in_a_quiet_cluster() -> None:
    """What EC2 refused to end, what waits for a person, what could not be read."""
    async with sweeping(Cache()) as sweeps:
        await asyncio.sleep(24 * 60 * MINUTE)
        quiet, sweeps.left_work = sweeps.count, True
        await asyncio.sleep(30 * MINUTE)
        assert sweeps.count - quiet == 3
