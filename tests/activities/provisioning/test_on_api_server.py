"""What planning asks of a real API server to learn whether the cache is behind."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from activities.kubernetes import resources
from activities.kubernetes.client import Kube
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tests.sandbox_clients import administrator
from tests.tenon.apis.case import NODECLAIM
from worker.cache.cluster import ClusterCache
from worker.cache.planning_view import PlanningView

NAMES = {"behind-a": "100", "behind-b": "101", "behind-c": "102", "behind-d": ""}


@pytest_asyncio.fixture
async def kube(sandbox: Sandbox) -> AsyncIterator[Kube]:
    async with administrator(sandbox) as kube:
        yield kube
        for name in NAMES:
            await kube.delete(resources.NODECLAIMS, name)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch that has to tell of nothing need not be waited for."""
    monkeypatch.setattr("worker.cache.planning_view.CATCH_UP_SECONDS", 0.0)
    monkeypatch.setattr("worker.cache.planning_view.QUIET_SECONDS", -1.0)


async def write(kube: Kube, name: str) -> None:
    label = {labels.BATCH: NAMES[name]} if NAMES[name] else {}
    await kube.create(resources.NODECLAIMS, {**NODECLAIM, "metadata": {"name": name, "labels": label}})


async def test_the_newest_batches_are_found_by_one_small_list(kube: Kube) -> None:
    """Label selectors compare numbers; those below, and claims of no batch, are left out."""
    for name in NAMES:
        await write(kube, name)
    nodeclaims = await kube.list(resources.NODECLAIMS, label_selector=f"{labels.BATCH}>100")
    assert [claim["metadata"]["name"] for claim in nodeclaims] == ["behind-b", "behind-c"]
    every = await kube.list(resources.NODECLAIMS, label_selector=f"{labels.BATCH}>0")
    assert {"behind-a", "behind-b", "behind-c"} <= {claim["metadata"]["name"] for claim in every}


async def test_a_cache_can_be_made_to_hold_what_it_lacks(kube: Kube) -> None:
    """Whatever its watches do: after catching up the claims are there, and the missing ones are gone."""
    cache = ClusterCache(kube)
    view = PlanningView(cache)
    running = asyncio.create_task(cache.run())
    try:
        await cache.wait_synced()
        await write(kube, "behind-c")
        await view.catch_up({"behind-c", "never-was"})
        assert cache.has_claims({"behind-c"})
        assert view.newest_batch(up_to=1000) == 102
        assert await view.confirm_pods()
        await kube.delete(resources.NODECLAIMS, "behind-c")
        await view.catch_up({"behind-c", "never-was"})
        assert not cache.has_claims({"behind-c"})
        assert not running.done()
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
