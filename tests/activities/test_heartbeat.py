"""Heartbeats are billed: an activity sends one only when its heartbeat timeout comes near."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from activities.heartbeat import paced_heartbeat, with_heartbeat

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]

TIMEOUT = timedelta(seconds=30)


async def beats(work: Callable[[], Awaitable[Any]], heartbeat_timeout: timedelta | None = TIMEOUT) -> list[float]:
    """When an activity beat_times heartbeats, in seconds."""
    loop = asyncio.get_running_loop()
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(environment.info, heartbeat_timeout=heartbeat_timeout)
    began, beat_times = loop.time(), list[float]()
    environment.on_heartbeat = lambda *_: beat_times.append(round(loop.time() - began))

    async def run() -> None:
        await work()

    await environment.run(run)
    return beat_times


@pytest.mark.parametrize(("seconds", "beat_times"), [(15, []), (25, [21]), (50, [21, 42])])
async def test_a_call_has_heartbeats_only_while_it_is_long(seconds: float, beat_times: list[float]) -> None:
    assert await beats(lambda: with_heartbeat(asyncio.sleep(seconds))) == beat_times


async def test_several_short_calls_count_together() -> None:
    """Otherwise an activity that makes many would seem dead."""

    async def work() -> None:
        for _ in range(6):
            await with_heartbeat(asyncio.sleep(10))

    assert await beats(work) == [21, 42]


async def test_a_loop_may_call_it_as_often_as_it_likes() -> None:
    async def work() -> None:
        beat = paced_heartbeat()
        for _ in range(45):
            await asyncio.sleep(1)
            beat(3)

    assert await beats(work) == [21, 42]


async def test_an_activity_without_a_heartbeat_timeout_sends_none() -> None:
    assert await beats(lambda: with_heartbeat(asyncio.sleep(300)), None) == []
