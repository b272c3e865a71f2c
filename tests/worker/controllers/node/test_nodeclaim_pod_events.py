"""When pods last came and went is noted on NodeClaims, after an outage too."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from activities import loggers
from activities.kubernetes.errors import ApiUnreachableError
from tests.worker.background import in_background
from tests.worker.cache.objects import claim, node, running
from tests.worker.fake_temporal import MOMENT, Cache
from worker.controllers.node.pod_events import CONCURRENCY, MAX_PENDING, QUIET, PodEventsController

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]


class ApiServer:
    """Takes statuses of NodeClaims; while ``away`` it takes none."""

    def __init__(self) -> None:
        self.away = False
        self.noted: list[tuple[str, str]] = []
        self.requests = 0

    async def patch(self, resource: Any, name: str, patch: dict[str, Any], *, subresource: str = "") -> None:
        self.requests += 1
        if self.away:
            raise ApiUnreachableError("https://x", "refused")
        self.noted.append((name, patch["status"]["lastPodEventTime"]))


@contextlib.asynccontextmanager
async def keeping() -> AsyncIterator[tuple[Cache, ApiServer]]:
    cache, server = Cache(), ApiServer()
    cache.publish(claim(), node())
    async with in_background(PodEventsController(cast("Any", server), cache).run()):
        await asyncio.sleep(MOMENT)
        yield cache, server


async def test_a_pod_that_came_is_noted() -> None:
    async with keeping() as (cache, server):
        pod = running("a", "n", since="2026-01-01T00:01:00Z")
        cache.pods.on_event(pod.key, pod)
        await asyncio.sleep(MOMENT)
        assert server.noted == [("claim", "2026-01-01T00:01:00Z")]


async def test_what_happened_in_an_outage_is_noted_after_it(caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise a restart would take the node for empty since long ago, and hasten its end."""
    async with keeping() as (cache, server):
        server.away = True
        pod = running("a", "n", since="2026-01-01T00:01:00Z")
        cache.pods.on_event(pod.key, pod)
        await asyncio.sleep(30 * QUIET)
        assert server.requests <= 32, "no rush on a server that is in trouble"
        server.away = False
        await asyncio.sleep(2 * QUIET)
        assert server.noted == [("claim", "2026-01-01T00:01:00Z")]
        requests = server.requests
        await asyncio.sleep(5 * QUIET)
        assert server.requests == requests
    own_logger = loggers.controller(PodEventsController.name).name
    assert [record.name for record in caplog.records if record.name == own_logger] == [own_logger]


async def test_few_writes_wait_at_once_however_many_nodes_changed() -> None:
    """Others write through the same limit on requests: 3,000 writes before theirs would hold them up for 15 seconds."""
    cache, server = Cache(), SlowServer()
    names = [f"n-{number}" for number in range(300)]
    for name in names:
        cache.publish(claim(f"claim-{name}", node_name=name), node(name))
    task = asyncio.create_task(PodEventsController(cast("Any", server), cache).run())
    await asyncio.sleep(MOMENT)
    for name in names:
        pod = running(f"pod-{name}", name, since="2026-01-01T00:01:00Z")
        cache.pods.on_event(pod.key, pod)
    await asyncio.sleep(QUIET * 40)
    task.cancel()
    assert len(server.noted) == len(names)
    assert server.most == CONCURRENCY


class SlowServer(ApiServer):
    """Takes a second for each write; ``most`` are how many it had to do with at once."""

    def __init__(self) -> None:
        super().__init__()
        self.flying = self.most = 0

    async def patch(self, resource: Any, name: str, patch: dict[str, Any], *, subresource: str = "") -> None:
        self.flying += 1
        self.most = max(self.most, self.flying)
        await asyncio.sleep(1)
        self.flying -= 1
        await super().patch(resource, name, patch, subresource=subresource)


async def test_of_many_busy_nodes_some_are_noted_at_a_time_and_empty_ones_at_once() -> None:
    """The time of a node's last pod event begins to matter when it is empty."""
    async with keeping() as (cache, server):
        names = [f"busy{number:03d}" for number in range(2 * MAX_PENDING)]
        cache.publish(*(node(name) for name in (*names, "empty")))
        cache.publish(*(claim(f"claim-{name}", node_name=name) for name in (*names, "empty")))
        pods = [running(f"p-{name}", name, since="2026-01-01T00:01:00Z") for name in (*names, "empty")]
        for pod in pods:
            cache.pods.on_event(pod.key, pod)
        cache.pods.on_event(pods[-1].key, None)
        await asyncio.sleep(MOMENT)
        assert len(server.noted) == MAX_PENDING + 1
        assert "claim-empty" in [name for name, _ in server.noted]
        await asyncio.sleep(QUIET)
        assert sorted(name for name, _ in server.noted) == sorted(["claim-empty", *(f"claim-{n}" for n in names)])
