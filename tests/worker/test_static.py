"""The keeper of static NodePools before an API server that is played: stale caches, refusals, restarts."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest

from activities.kubernetes.errors import ApiError, Conflict
from tenon.apis import labels
from tenon.provisioning.policy import PlanPolicy
from tests.apis.case import EC2NODECLASS, NODEPOOL, edited
from tests.cache.objects import metadata, node, running
from tests.planning.fake_view import READY, FakeTypes
from tests.worker.test_bridge import Cache
from worker.cache.decode import decode_object
from worker.static import RESYNC, StaticKeeper
from worker.static_patience import PAUSES
from worker.view import CachedView

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]

MOMENT = 1.0
"""More than the keeper lets changes settle."""


class ApiServer:
    """NodePools and NodeClaims, told to the cache by a watch that can be stopped."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.pools: dict[str, dict[str, Any]] = {}
        self.claims: dict[str, dict[str, Any]] = {}
        self.watching = True
        self.away = False
        self.made: list[str] = []
        self.deleted: list[str] = []
        self._versions = itertools.count(1)

    def put_pool(self, replicas: int, **edits: Any) -> None:
        generation = self.pools.get("fixed", {"metadata": {"generation": 0}})["metadata"]["generation"] + 1
        body = {**edited(NODEPOOL, {"replicas": replicas, **edits})}
        body["metadata"] = metadata("fixed", generation=generation)
        self.pools["fixed"] = body
        self.cache.pools.on_event("fixed", decode_object(json.dumps(body).encode()))

    def tell(self, name: str) -> None:
        if not self.watching:
            return
        body = self.claims.get(name)
        if body:
            body["metadata"]["resourceVersion"] = str(next(self._versions))
        self.cache.claims.on_event(name, decode_object(json.dumps(body).encode()) if body else None)

    def launch(self, name: str) -> None:
        """EC2 has sold an instance, and its Node has joined."""
        self.claims[name]["status"] = {"providerID": f"aws:///us-west-2a/i-{name}", "nodeName": name}
        self.cache.tell(node(name))
        self.tell(name)

    def end(self, name: str) -> None:
        """The workflow has let the claim go."""
        del self.claims[name]
        self.tell(name)

    def standing(self) -> list[str]:
        return sorted(n for n, c in self.claims.items() if "deletionTimestamp" not in c["metadata"])

    async def get(self, _: object, name: str) -> dict[str, Any] | None:
        self._check()
        return self.pools.get(name)

    async def list(self, _: object, *, label_selector: str) -> list[dict[str, Any]]:
        self._check()
        assert label_selector == f"{labels.NODEPOOL}=fixed"
        return list(self.claims.values())

    async def create(self, _: object, body: dict[str, Any]) -> None:
        self._check()
        name = body["metadata"]["name"]
        if name in self.claims:
            raise Conflict(409, "AlreadyExists", "it exists")
        self.claims[name] = {**body, "metadata": {**metadata(name), **body["metadata"]}, "status": {}}
        self.made.append(name)
        self.tell(name)

    async def delete(self, _: object, name: str, *, uid: str) -> bool:
        self._check()
        assert self.claims[name]["metadata"]["uid"] == uid
        self.claims[name]["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
        self.deleted.append(name)
        self.tell(name)
        return True

    def _check(self) -> None:
        if self.away:
            raise ApiError(503, "ServiceUnavailable", "away")


@contextlib.asynccontextmanager
async def keeping(server: ApiServer) -> AsyncIterator[None]:
    """A keeper that has looked once."""
    cache = server.cache
    ready = {**EC2NODECLASS, "metadata": metadata("default"), "status": {"conditions": [READY]}}
    cache.nodeclasses.on_event("default", decode_object(json.dumps(ready).encode()))
    keeper = StaticKeeper(cast("Any", server), cache, CachedView(cache), FakeTypes(), PlanPolicy())
    task = asyncio.create_task(keeper.run())
    await settle()
    try:
        yield
        assert not task.done(), task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def settle(seconds: float = MOMENT) -> None:
    """Let the keeper come to rest."""
    await asyncio.sleep(seconds)


@pytest.fixture(autouse=True)
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop's clock, which is played, does not wait for a thread."""

    async def at_once(work: Callable[..., Any], *arguments: Any) -> Any:
        return work(*arguments)

    monkeypatch.setattr(asyncio, "to_thread", at_once)


def served(replicas: int, **edits: Any) -> ApiServer:
    server = ApiServer(Cache())
    server.put_pool(replicas, **edits)
    return server


async def test_sch100_replicas_are_kept_and_followed() -> None:
    server = served(2)
    async with keeping(server):
        assert len(server.standing()) == 2
        server.put_pool(3)
        await settle()
        assert len(server.standing()) == 3
        server.put_pool(1)
        await settle()
        assert (len(server.standing()), len(server.made), len(server.deleted)) == (1, 3, 2)


async def test_a_cache_that_hears_nothing_makes_nothing_twice() -> None:
    """Names and numbers come from the API server itself."""
    server = served(2)
    server.watching = False
    async with keeping(server):
        for _ in range(5):
            await settle(RESYNC)
        assert len(server.claims) == 2
        server.put_pool(1)
        await settle()
        await settle(RESYNC)
        assert len(server.standing()) == 1
        assert len(server.deleted) == 1


async def test_a_new_leader_makes_nothing_twice() -> None:
    server = served(3)
    async with keeping(server):
        pass
    async with keeping(server):
        await settle(3 * RESYNC)
        assert len(server.made) == 3


async def test_a_node_that_leaves_is_replaced_before_it_is_gone() -> None:
    """DIS-83; what was launched and then deleted by somebody says nothing of EC2, so nothing waits."""
    server = served(1)
    async with keeping(server):
        (first,) = server.standing()
        server.launch(first)
        await settle()
        await server.delete(None, first, uid=server.claims[first]["metadata"]["uid"])
        await settle()
        (second,) = server.standing()
        assert second != first
        assert first in server.claims


async def test_sch100_the_node_whose_pods_mind_least_goes_first() -> None:
    server = served(3)
    async with keeping(server):
        busy, held, dear = server.standing()
        for name in (busy, held, dear):
            server.launch(name)
        pods = server.cache.pods
        protected = {"annotations": {labels.DO_NOT_DISRUPT: "true"}}
        costly = {"annotations": {labels.POD_DELETION_COST: str(2**28)}}
        for record in (running("a", busy), running("b", held, meta=protected), running("c", dear, meta=costly)):
            pods.on_event(record.key, record)
        await settle()
        server.put_pool(2)
        await settle()
        server.put_pool(1)
        await settle()
        assert server.deleted == [busy, dear]
        assert server.standing() == [held]


async def test_where_nothing_can_be_launched_it_is_tried_again_ever_less_often() -> None:
    """SCH-100: a claim that EC2 refuses is gone at once; making it anew in a circle would help nobody."""
    server = served(1)
    loop = asyncio.get_running_loop()
    tries: list[float] = []
    async with keeping(server):
        while len(tries) < 4:
            await settle()
            for name in server.standing():
                tries.append(loop.time())
                server.end(name)
        gaps = [after - before for before, after in itertools.pairwise(tries)]
        assert all(gap >= pause for gap, pause in zip(gaps, PAUSES, strict=False))
        assert len(set(server.made)) == len(server.made)
        server.put_pool(2)
        await settle()
        assert len(server.standing()) == 2, "a changed pool is served at once"


async def test_a_pool_whose_class_is_not_ready_is_told_of_and_waits(caplog: pytest.LogCaptureFixture) -> None:
    server = served(1)
    async with keeping(server):
        server.cache.nodeclasses.on_event("default", None)
        server.put_pool(2)
        await settle()
        assert len(server.standing()) == 1
        server.put_pool(0)
        await settle()
        assert server.standing() == [], "taking away needs no class"
    assert "EC2NodeClass default does not exist" in str([record.__dict__.get("error") for record in caplog.records])


async def test_the_keeper_outlives_an_outage_of_the_api_server() -> None:
    server = served(1)
    async with keeping(server):
        server.away = True
        server.put_pool(2)
        await settle()
        server.away = False
        await settle(RESYNC + MOMENT)
        assert len(server.standing()) == 2


async def test_sch100_a_limit_on_nodes_is_kept_and_told_of(caplog: pytest.LogCaptureFixture) -> None:
    server = served(3, limits={"nodes": "2"})
    async with keeping(server):
        assert len(server.standing()) == 2
    assert "limits.nodes keeps 1" in str([record.__dict__.get("error") for record in caplog.records])
