"""Garbage collection is called when a Node falls silent, and not again and again."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator
from typing import Any

import pytest
from temporalio.service import RPCError, RPCStatusCode

from tenon.kube.records import NodeRecord
from tests.worker.background import in_background
from tests.worker.cache.objects import claim, node
from tests.worker.fake_temporal import Cache
from worker.controllers.node.not_ready_nodes import CHECKS, RETRY, NotReadyNodeController

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]

INITIALIZED: dict[str, Any] = {"conditions": [{"type": "Initialized", "status": "True"}]}

ENDING = {"conditions": [*INITIALIZED["conditions"], {"type": "InstanceTerminating", "status": "True"}]}


@contextlib.asynccontextmanager
async def watched(cache: Cache, fails: int = 0) -> AsyncIterator[list[float]]:
    """When sweeps were called for, in seconds; the first so many calls fail."""
    loop = asyncio.get_running_loop()
    began, sweeps, remainder = loop.time(), list[float](), [fails]

    async def sweep() -> None:
        if remainder[0]:
            remainder[0] -= 1
            raise RPCError("away", RPCStatusCode.UNAVAILABLE, b"")
        sweeps.append(loop.time() - began)

    async with in_background(NotReadyNodeController(cache, sweep).run()):
        await asyncio.sleep(0)
        yield sweeps


def reporting(name: str, *, ready: bool) -> NodeRecord:
    """A Node whose kubelet reports, or not."""
    return dataclasses.replace(node(name), ready=ready)


def live(cache: Cache, name: str, *, ready: bool) -> None:
    """An initialized node."""
    cache.publish(claim(name, node_name=name, status=INITIALIZED), reporting(name, ready=ready))


async def test_a_node_that_falls_silent_is_looked_at_soon_and_once_more() -> None:
    """CTL-15: its instance may be gone; a kubelet that is only broken costs two sweeps and no more."""
    cache = Cache()
    live(cache, "a", ready=True)
    async with watched(cache) as sweeps:
        await asyncio.sleep(300)
        assert sweeps == []
        live(cache, "a", ready=False)
        await asyncio.sleep(3600)
        assert [at - 300 for at in sweeps] == pytest.approx(CHECKS)


async def test_a_node_that_reports_again_is_no_longer_looked_for() -> None:
    cache = Cache()
    live(cache, "a", ready=False)
    async with watched(cache) as sweeps:
        await asyncio.sleep(CHECKS[0] / 2)
        live(cache, "a", ready=True)
        await asyncio.sleep(600)
        assert sweeps == []


async def test_many_nodes_of_one_accident_are_one_sweep() -> None:
    cache = Cache()
    for name in "abcdef":
        live(cache, name, ready=False)
    async with watched(cache) as sweeps:
        await asyncio.sleep(CHECKS[0] + 1)
        assert len(sweeps) == 1


async def test_trm09_a_node_that_falls_silent_while_it_drains_is_looked_for() -> None:
    """Its pods are not waited for once its instance is known to be gone."""
    cache = Cache()
    leaving = {"deletionTimestamp": "2026-11-21T12:00:00Z"}
    cache.publish(
        claim("a", node_name="a", status=INITIALIZED, meta=leaving),
        dataclasses.replace(node("a", meta=leaving), ready=False),
    )
    async with watched(cache) as sweeps:
        await asyncio.sleep(3600)
        assert sweeps == pytest.approx(CHECKS)


async def test_nodes_that_start_end_or_are_not_ours_are_not_looked_for() -> None:
    """They have time limits of their own, or Tenon ends their instances itself."""
    cache = Cache()
    cache.publish(claim("starting", node_name="starting"), reporting("starting", ready=False))
    cache.publish(
        claim("ending", node_name="ending", status=ENDING, meta={"deletionTimestamp": "2026-11-21T12:00:00Z"}),
        reporting("ending", ready=False),
        reporting("stranger", ready=False),
    )
    async with watched(cache) as sweeps:
        await asyncio.sleep(600)
        assert sweeps == []


async def test_a_call_that_temporal_did_not_take_is_made_again() -> None:
    cache = Cache()
    live(cache, "a", ready=False)
    async with watched(cache, fails=2) as sweeps:
        await asyncio.sleep(CHECKS[0] + 2 * RETRY + 1)
        assert len(sweeps) == 1
