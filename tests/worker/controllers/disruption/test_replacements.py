"""When the workflow of a disruption command hears of its replacements, with a Temporal that only remembers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from temporalio.client import Client

from tenon.apis import labels
from tests.worker.background import in_background
from tests.worker.cache.objects import claim
from tests.worker.fake_temporal import MOMENT, NOT_FOUND, UNAVAILABLE, Cache, FakeTemporal
from worker.controllers.disruption.replacements import ReplacementController
from workflows import names

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]

COMMAND = names.command_id("c", "drifted-1")
SIGNAL = (COMMAND, "replacement_changed", ("new",))
INITIALIZED = {"conditions": [{"type": "Initialized", "status": "True"}]}


@contextlib.asynccontextmanager
async def watched(cache: Cache, temporal: FakeTemporal) -> AsyncIterator[None]:
    """A running controller that has seen all NodeClaims."""
    async with in_background(ReplacementController(cast("Client", temporal), cache, "c").run()):
        await asyncio.sleep(MOMENT)
        yield


async def show(cache: Cache, *, marked: bool = True, status: dict[str, Any] | None = None, **metadata: Any) -> None:
    """Show the replacement to the controller."""
    annotations = {labels.REPLACEMENT_FOR: "drifted-1"} if marked else {}
    cache.publish(claim("new", meta={"annotations": annotations, **metadata}, status=status or {}))
    await asyncio.sleep(MOMENT)


async def test_dis63_a_command_hears_once_that_its_replacement_is_initialized() -> None:
    cache, temporal = Cache(), FakeTemporal()
    async with watched(cache, temporal):
        await show(cache)
        assert temporal.signals == []
        await show(cache, status={"conditions": [{"type": "Launched", "status": "True"}]})
        assert temporal.signals == [], "a step before that ends no wait"
        for _ in range(2):
            await show(cache, status=INITIALIZED)
        assert temporal.signals == [SIGNAL]
        await show(cache, status=INITIALIZED, labels={"team": "b"})
        assert temporal.signals == [SIGNAL], "another change of it ends no wait"
        await show(cache, marked=False, status=INITIALIZED)
        assert temporal.signals == [SIGNAL], "the command has ended"


@pytest.mark.parametrize("vanishes", [True, False])
async def test_dis65_a_command_hears_that_its_replacement_goes_away(vanishes: bool) -> None:
    cache, temporal = Cache(), FakeTemporal()
    async with watched(cache, temporal):
        await show(cache)
        if vanishes:
            cache.claims.on_event("new", None)
            await asyncio.sleep(MOMENT)
        else:
            await show(cache, deletionTimestamp="2026-03-01T12:00:01Z")
        assert temporal.signals == [SIGNAL]


async def test_a_replacement_that_is_gone_is_forgotten_with_its_command() -> None:
    """A later NodeClaim of its name is no replacement."""
    cache, temporal = Cache(), FakeTemporal()
    async with watched(cache, temporal):
        await show(cache)
        for _ in range(2):
            cache.claims.on_event("new", None)
            await asyncio.sleep(MOMENT)
            assert temporal.signals == [SIGNAL]
            await show(cache, marked=False)


async def test_a_new_leader_repeats_the_signal_because_the_last_one_may_have_lost_it() -> None:
    cache, temporal = Cache(), FakeTemporal()
    await show(cache, status=INITIALIZED)
    async with watched(cache, temporal):
        assert temporal.signals == [SIGNAL]


async def test_a_signal_that_temporal_does_not_take_is_sent_again() -> None:
    cache, temporal = Cache(), FakeTemporal()
    temporal.fails[f"signal {COMMAND}"] = [UNAVAILABLE, UNAVAILABLE]
    async with watched(cache, temporal):
        await show(cache, status=INITIALIZED)
        await asyncio.sleep(10)
        assert temporal.signals == [SIGNAL]


async def test_a_command_that_has_ended_is_not_signaled_again() -> None:
    cache, temporal = Cache(), FakeTemporal()
    temporal.fails[f"signal {COMMAND}"] = [NOT_FOUND]
    async with watched(cache, temporal):
        await show(cache, status=INITIALIZED)
        await asyncio.sleep(60)
        assert (temporal.signals, temporal.fails[f"signal {COMMAND}"]) == ([], [])


async def test_n15_191_a_command_hears_once_that_a_node_that_left_first_is_gone() -> None:
    cache, temporal = Cache(), FakeTemporal()
    annotations = {labels.DISRUPTED_BY: "drifted-1"}
    async with watched(cache, temporal):
        cache.publish(claim("old", meta={"annotations": annotations}))
        cache.publish(claim("old", meta={"annotations": annotations, "deletionTimestamp": "2026-03-01T12:00:01Z"}))
        await asyncio.sleep(MOMENT)
        assert temporal.signals == [], "it only begins to leave"
        cache.claims.on_event("old", None)
        await asyncio.sleep(MOMENT)
        assert temporal.signals == [(COMMAND, "replacement_changed", ("old",))]
