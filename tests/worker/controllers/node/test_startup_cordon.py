"""No startup cordon stays for ever, whatever becomes of the node's workflow."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from tenon.apis import labels
from tenon.node.startup_cordon import MAX_STARTUP_CORDON
from tests.worker.background import in_background
from tests.worker.cache.objects import node
from tests.worker.fake_temporal import Cache
from worker.controllers.node.startup_cordon import BACKSTOP_SECONDS, RETRY, StartupCordonController

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]

CORDONED = {"annotations": {labels.STARTUP_CORDON: "true"}}
INITIALIZED = {**CORDONED, "labels": {labels.INITIALIZED: "true"}}


class Nodes:
    """The API server's Nodes; the first so many reads fail."""

    def __init__(self, cache: Cache, fails: int = 0) -> None:
        self._cache = cache
        self._fails = fails
        self.bodies: dict[str, dict[str, Any]] = {}
        self.removed: list[tuple[str, float]] = []

    def add(self, name: str, marks: dict[str, Any] = INITIALIZED) -> None:
        """A node with a startup cordon."""
        metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", **marks}
        self.bodies[name] = {"metadata": metadata, "spec": {"unschedulable": True}}
        self._cache.publish(node(name, meta=marks, unschedulable=True))

    async def get(self, _: object, name: str) -> dict[str, Any] | None:
        """The Node."""
        if self._fails:
            self._fails -= 1
            raise ApiError(503, "ServiceUnavailable", "away")
        return self.bodies.get(name)

    async def patch(self, _: object, name: str, patch: dict[str, Any], **__: Any) -> dict[str, Any]:
        """Removes the cordon, as far as this test goes."""
        assert patch["metadata"]["annotations"] == {labels.STARTUP_CORDON: None}
        assert patch["spec"]["unschedulable"] is None
        self.removed.append((name, asyncio.get_running_loop().time()))
        self.bodies[name] = {"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": {}}
        self._cache.publish(node(name))
        return self.bodies[name]


@contextlib.asynccontextmanager
async def removing(fails: int = 0) -> AsyncIterator[tuple[Nodes, float]]:
    """A running controller, and when it began."""
    cache = Cache()
    nodes = Nodes(cache, fails)
    async with in_background(StartupCordonController(cast("Kube", nodes), cache).run()):
        await asyncio.sleep(0)
        yield nodes, asyncio.get_running_loop().time()


async def test_a_startup_cordon_that_stays_is_removed_after_a_while() -> None:
    async with removing() as (nodes, began):
        nodes.add("a")
        await asyncio.sleep(BACKSTOP_SECONDS - 1)
        nodes.add("b")
        assert not nodes.removed
        await asyncio.sleep(2)
        assert nodes.removed == [("a", began + BACKSTOP_SECONDS)]
        await asyncio.sleep(BACKSTOP_SECONDS)
        assert [name for name, _ in nodes.removed] == ["a", "b"]


async def test_the_startup_cordon_of_a_node_that_is_not_initialized_goes_sooner() -> None:
    """Its workflow checks it only after a minute, and what the node lacks may be a pod that the cordon keeps away."""
    async with removing() as (nodes, began):
        nodes.add("a", CORDONED)
        await asyncio.sleep(BACKSTOP_SECONDS)
        assert nodes.removed == [("a", began + MAX_STARTUP_CORDON.total_seconds())]


async def test_an_api_server_that_does_not_answer_is_asked_again() -> None:
    async with removing(fails=2) as (nodes, began):
        nodes.add("a")
        await asyncio.sleep(BACKSTOP_SECONDS + 3 * RETRY)
        assert nodes.removed == [("a", began + BACKSTOP_SECONDS + 2 * RETRY)]


async def test_a_node_that_its_workflow_uncordoned_or_that_is_gone_is_left_alone() -> None:
    async with removing() as (nodes, _):
        nodes.add("gone")
        del nodes.bodies["gone"]
        nodes.add("open")
        nodes.bodies["open"] = {"metadata": {"name": "open", "uid": "uid-open"}, "spec": {"unschedulable": True}}
        await asyncio.sleep(3 * BACKSTOP_SECONDS)
        assert not nodes.removed
