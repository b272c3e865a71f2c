"""What planning trusts: how the view finds out that the cache is behind, and brings it up to date."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from activities.kubernetes.errors import ApiUnreachable
from activities.kubernetes.resources import NAMESPACES, NODECLAIMS, PODS, PVCS
from tenon.apis import labels
from tests.cache.objects import mounting, waiting
from tests.kubernetes.fake_api import FakeApi
from worker.cache.changes import Topic
from worker.cache.cluster import ClusterCache
from worker.view import CATCH_UP_SECONDS, QUIET_SECONDS, REFRESH_SECONDS, CachedView

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]


class ManyApis(FakeApi):
    """An API server of several resources, each with its own objects."""

    def __init__(self) -> None:
        super().__init__()
        self.by_path: dict[str, FakeApi] = {}

    def of(self, path: str) -> FakeApi:
        return self.by_path.setdefault(path, FakeApi())

    async def request(self, method: str, path: str, **options: Any) -> bytes:
        return await self.of(path).request(method, path, **options)

    async def stream(self, path: str, query: Any = None, **options: Any) -> AsyncIterator[bytes]:
        async for line in self.of(path).stream(path, query, **options):
            yield line

    def lists(self, path: str) -> int:
        return sum(1 for query in self.of(path).requests if "watch" not in query)


CLAIMS, ALL_PODS = NODECLAIMS.path(), PODS.path()


@contextlib.asynccontextmanager
async def viewing() -> AsyncIterator[tuple[ManyApis, ClusterCache, CachedView]]:
    api = ManyApis()
    cache = ClusterCache(api, silence_limit=75.0)  # type: ignore[arg-type]
    task = asyncio.create_task(cache.run())
    await cache.wait_synced()
    try:
        yield api, cache, CachedView(cache)
        assert not task.done()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_claims_that_a_working_watch_is_about_to_tell_of_are_only_waited_for() -> None:
    """Reading everything anew after each plan would cost a list a second under load."""
    async with viewing() as (api, cache, view):
        wait = asyncio.create_task(view.catch_up(["a"]))
        await asyncio.sleep(CATCH_UP_SECONDS / 2)
        api.of(CLAIMS).put("a", "1")
        await wait
        assert cache.holds(["a"])
        assert api.lists(CLAIMS) == 0


@pytest.mark.parametrize("held", [False, True])
async def test_claims_behind_a_stalled_watch_are_read_anew(held: bool, caplog: pytest.LogCaptureFixture) -> None:
    async with viewing() as (api, cache, view):
        api.of(CLAIMS).stall(new_ones_too=held)
        api.of(CLAIMS).put("a", "1", labels={labels.BATCH: "7"})
        await view.catch_up(["a"])
        assert cache.holds(["a"])
        assert view.newest_batch(up_to=7) == 7
        assert (api.lists(CLAIMS), api.lists(ALL_PODS)) == (1, 0)
    assert "the watch of NodeClaims is behind" in caplog.text


async def test_claims_that_are_gone_are_not_waited_for() -> None:
    async with viewing() as (_, cache, view):
        async with asyncio.timeout(2 * CATCH_UP_SECONDS):
            await view.catch_up(["gone"])
        assert not cache.holds(["gone"])


async def test_an_api_server_that_is_away_is_told_and_not_waited_for_for_ever() -> None:
    async with viewing() as (api, _, view):
        api.of(CLAIMS).failures += [ApiUnreachable("https://x", "refused")] * 100
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2 * REFRESH_SECONDS):
                await view.catch_up(["a"])


async def test_pods_are_read_anew_only_when_their_watch_was_quiet() -> None:
    """In a busy cluster the watch is never quiet; where it is, it may be broken."""
    async with viewing() as (api, cache, view):
        for second in range(60):
            await asyncio.sleep(1)
            api.of(ALL_PODS).bookmark()
            await asyncio.sleep(0.1)
            assert not await view.confirm_pods(), second
        api.of(ALL_PODS).stall()
        await asyncio.sleep(QUIET_SECONDS + 1)
        assert await view.confirm_pods()
        assert not await view.confirm_pods(), "read a moment ago"
        assert api.lists(ALL_PODS) == 1
        assert cache.silent_for(PODS) < QUIET_SECONDS


async def test_batches_that_are_no_numbers_do_not_count() -> None:
    """Anyone may label a NodeClaim."""
    async with viewing() as (api, cache, view):
        assert view.newest_batch(up_to=100) == 0
        for name, batch in (("a", "12"), ("b", "x"), ("c", "9"), ("d", "-4")):
            api.of(CLAIMS).put(name, json.dumps(batch), labels={labels.BATCH: batch})
        await cache.wait_holds(["a", "b", "c", "d"], 5)
        assert view.newest_batch(up_to=100) == 12
        assert view.newest_batch(up_to=11) == 9


async def test_namespaces_are_read_with_their_labels_and_a_change_of_them_counts() -> None:
    """A pod that no rule let in may fit once a namespace is labelled."""
    async with viewing() as (api, cache, view):
        before = view.fingerprint()
        with cache.subscribe([Topic.NAMESPACE]) as news:
            api.of(NAMESPACES.path()).put("shop", "1", labels={"team": "a"})
            await news.next()
        assert view.namespaces() == {"shop": {"team": "a"}}
        assert view.fingerprint().namespaces != before.namespaces
        assert view.fingerprint().supply == before.supply


async def test_waiting_pods_come_with_what_their_claims_say() -> None:
    async with viewing() as (api, cache, view):
        record = waiting(volumes=mounting("data"))
        cache.pods.on_event(record.key, record)
        (seen,) = view.pending_pods()
        assert "its volume claim ns/data is not there" in seen.unsupported
        with cache.subscribe([Topic.PENDING]) as news:
            api.of(PVCS.path()).put("data", "1", namespace="ns")
            await news.next()
        (seen,) = view.pending_pods()
        assert "not bound and without a StorageClass" in seen.unsupported
