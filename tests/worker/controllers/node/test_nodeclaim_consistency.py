"""A NodeClaim says when its Node has clearly less than it promises."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from activities.kubernetes.resources import NODECLAIMS
from tenon.kube.decode import decode_nodeclaim
from tests.activities.node.fake_kube import Clock, FakeKube, Recorder
from tests.worker.background import in_background
from tests.worker.cache.objects import claim, node
from tests.worker.fake_temporal import Cache
from worker.controllers.node.consistency import RESCAN_SECONDS, NodeClaimConsistencyController

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]

SOON = 2.0
INITIALIZED = "2026-01-01T00:00:00Z"


class World(FakeKube):
    """An API server whose NodeClaims the cache sees."""

    def __init__(self) -> None:
        super().__init__(Clock())
        self.cache, self.recorder = Cache(), Recorder()

    async def patch(self, resource: Any, name: str, *value: Any, **options: Any) -> Any:
        body = await super().patch(resource, name, *value, **options)
        self.show(name)
        return body

    def show(self, name: str) -> None:
        """Let the cache see a NodeClaim as it is now."""
        self.cache.publish(decode_nodeclaim(json.dumps(self.objects["nodeclaims", "", name]).encode()))

    def live(self, name: str = "a", *, initialized: str = INITIALIZED, **meta: Any) -> None:
        """A NodeClaim that promises 4 CPU."""
        resources = {"requests": {"cpu": "1"}}
        record = claim(name, initialized=initialized, meta=meta, status={"capacity": {"cpu": "4"}}, resources=resources)
        self.add(NODECLAIMS, dict(record.body))
        self.cache.publish(record)

    def condition(self, name: str = "a") -> dict[str, Any]:
        conditions = self.objects["nodeclaims", "", name]["status"].get("conditions") or []
        return next((condition for condition in conditions if condition["type"] == "ConsistentStateFound"), {})


@contextlib.asynccontextmanager
async def watched(world: World) -> AsyncIterator[None]:
    kube, recorder = cast("Any", world), world.recorder
    controller = NodeClaimConsistencyController(kube, recorder, world.cache, "c", world.clock)
    async with in_background(controller.run()):
        await asyncio.sleep(SOON)
        yield


async def test_lif07_ctl14_evt05_a_lost_resource_is_reported_until_it_is_back() -> None:
    world = World()
    world.live()
    world.cache.publish(node(cpu="4"))
    async with watched(world):
        assert world.calls == [], "a node as promised costs no request"
        world.cache.publish(node(cpu="2"))
        await asyncio.sleep(SOON)
        assert (world.condition()["status"], world.condition()["reason"]) == ("False", "ConsistencyCheckFailed")
        assert "expected 4 of resource cpu, but found 2 (50.0% of expected)" in world.condition()["message"]
        messages = {event[:3] for event in world.recorder.events}
        assert messages == {("NodeClaim", "a", "FailedConsistencyCheck")}
        writes, events = len(world.calls), len(world.recorder.events)
        await asyncio.sleep(2 * RESCAN_SECONDS)
        assert len(world.calls) == writes
        assert len(world.recorder.events) == events + 2, "it is told at each scan"
        world.cache.publish(node(cpu="4"))
        await asyncio.sleep(SOON)
        assert world.condition()["status"] == "True"
        assert len(world.recorder.events) == events + 2


@pytest.mark.parametrize("claimed", [{"initialized": ""}, {"deletionTimestamp": INITIALIZED, "finalizers": ["x"]}])
async def test_lif07_nodes_that_start_or_leave_are_not_judged(claimed: dict[str, Any]) -> None:
    world = World()
    world.live(**claimed)
    world.cache.publish(node(cpu="1"))
    async with watched(world):
        await asyncio.sleep(RESCAN_SECONDS)
    assert world.condition() == {}
    assert world.recorder.events == []
