"""The finalizer of a NodeClaim comes back when somebody wiped it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from activities.kubernetes.errors import ApiUnreachableError
from activities.kubernetes.resources import NODECLAIMS, Resource
from tenon.apis.labels import TERMINATION_FINALIZER
from tests.activities.node.fake_kube import Clock, FakeKube
from tests.worker.background import in_background
from tests.worker.cache.objects import claim
from tests.worker.fake_temporal import MOMENT, Cache
from worker.controllers.node.finalizer import NodeClaimFinalizerController

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]

GUARDED: dict[str, Any] = {"finalizers": [TERMINATION_FINALIZER]}


class Server(FakeKube):
    """Tells the cache of what is stored, and does not answer its first ``fails`` requests."""

    def __init__(self, cache: Cache) -> None:
        super().__init__(Clock())
        self.cache = cache
        self.fails = 0

    async def get(
        self, resource: Resource, name: str, namespace: str = "", *, not_older_than: str = ""
    ) -> dict[str, Any] | None:
        if self.fails:
            self.fails -= 1
            raise ApiUnreachableError("https://x", "refused")
        return await super().get(resource, name, namespace, not_older_than=not_older_than)

    def stored(self, name: str, *, node_name: str = "n", **metadata: Any) -> None:
        """A claim as the API server and the cache have it."""
        record = claim(name, node_name=node_name, meta=metadata)
        self.add(NODECLAIMS, dict(record.body))
        self.cache.publish(record)

    def finalizers(self, name: str) -> list[str]:
        return list(self.objects["nodeclaims", "", name]["metadata"].get("finalizers") or ())


@contextlib.asynccontextmanager
async def keeping() -> AsyncIterator[Server]:
    server = Server(Cache())
    server.stored("a", **GUARDED)
    async with in_background(NodeClaimFinalizerController(cast("Any", server), server.cache, "c").run()):
        await asyncio.sleep(MOMENT)
        yield server


async def test_fin01_a_finalizer_that_a_plain_update_wiped_comes_back() -> None:
    async with keeping() as server:
        assert server.calls == []
        server.stored("a", finalizers=["example.com/audit"])
        await asyncio.sleep(2 * MOMENT)
        assert server.finalizers("a") == ["example.com/audit", TERMINATION_FINALIZER]


async def test_it_comes_back_after_an_outage_too() -> None:
    async with keeping() as server:
        server.fails = 3
        server.stored("a")
        await asyncio.sleep(10 * MOMENT)
        assert server.finalizers("a") == [TERMINATION_FINALIZER]


async def test_claims_that_leave_or_were_never_launched_are_left_alone() -> None:
    async with keeping() as server:
        server.stored("leaving", deletionTimestamp="2026-11-21T12:00:00Z", finalizers=["example.com/audit"])
        server.stored("starting", node_name="")
        await asyncio.sleep(5 * MOMENT)
        assert server.calls == []
