"""Two replicas of the worker, each behind an API proxy of its own, and watches that say nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest_asyncio

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import LEASES
from sandbox.cluster import Sandbox
from sandbox.faults.apiproxy import ApiProxy
from tests.e2e.conftest import MakePool
from tests.e2e.pools import SMALL, Pool
from tests.e2e.worker_process import WorkerProcess
from tests.faults.conftest import Observe
from tests.workflows.waiting import until

SILENCE = "4s"
"""How long a watch of these replicas may say nothing."""
LEASE, LEASE_NAMESPACE = "karpenter-leader-election", "tenon"


@dataclass
class Replica:
    """A worker and what it takes for the API server."""

    worker: WorkerProcess
    api: ApiProxy


@dataclass
class Replicas:
    """Two workers that run."""

    leader: Replica
    standby: Replica

    def swap(self) -> None:
        """The standby leads now."""
        self.leader, self.standby = self.standby, self.leader


async def holder(kube: Kube) -> str:
    """Who holds the Lease; empty when nobody does."""
    lease = await kube.get(LEASES, LEASE, LEASE_NAMESPACE)
    return str(((lease or {}).get("spec") or {}).get("holderIdentity") or "")


async def led_by_another(kube: Kube, than: str) -> None:
    """Wait until somebody else than ``than`` holds the Lease."""

    async def taken_over() -> bool:
        return await holder(kube) not in ("", than)

    await until(taken_over)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def replicas(sandbox: Sandbox, kube: Kube, worker: WorkerProcess, api: ApiProxy) -> AsyncIterator[Replicas]:
    """Two replicas in place of the package's worker, which is started again afterwards."""
    assert await asyncio.to_thread(worker.stop) == 0
    with ExitStack() as stack:
        own = stack.enter_context(ApiProxy.start(sandbox))
        first = _replica(sandbox, api, 0)
        second = _replica(sandbox, own, 1)
        before = await holder(kube)
        await asyncio.to_thread(first.worker.start)
        await led_by_another(kube, before)
        await asyncio.to_thread(second.worker.start)
        try:
            yield Replicas(first, second)
        finally:
            for each in (first, second):
                each.api.clear()
                each.api.release()
                if each.worker.running:
                    await asyncio.to_thread(each.worker.stop)
            await asyncio.to_thread(worker.start)


def _replica(sandbox: Sandbox, api: ApiProxy, number: int) -> Replica:
    changes = {"KUBECONFIG": str(api.kubeconfig), "WATCH_SILENCE_LIMIT": SILENCE}
    return Replica(WorkerProcess(sandbox, f"replica-{number}", replica=number, **changes), api)


async def claimed(pool: Pool, count: int) -> None:
    """Wait for so many NodeClaims."""

    async def there() -> bool:
        return len(await pool.claims()) == count

    await until(there)


async def test_a_new_leader_with_a_stalled_watch_buys_nothing_twice(
    replicas: Replicas, make_pool: MakePool, observe: Observe, kube: Kube
) -> None:
    """It saw the pods, but neither that nodes were bought for them nor that they run; and its plans go on."""
    pool = await make_pool(requirements=SMALL)
    async with observe(pool) as seen:
        old = await holder(kube)
        replicas.standby.api.stall_watches("nodeclaims")
        await pool.deploy(2)
        await claimed(pool, 2)
        replicas.standby.api.stall_watches()
        await pool.running(2)
        await asyncio.to_thread(replicas.leader.worker.crash)
        replicas.swap()
        await led_by_another(kube, old)
        await pool.deploy(1, "late")
        await seen.whole(pool)
        assert seen.bought(pool) == 3
        assert len(await pool.claims()) == 3
        replicas.leader.api.release()
        await asyncio.to_thread(replicas.standby.worker.start)
        await pool.scale(0)
        await pool.scale(0, "late")


async def test_a_leader_that_stops_hands_over_at_once(
    replicas: Replicas, make_pool: MakePool, observe: Observe, kube: Kube
) -> None:
    """The Lease is released, not left to run out; what the old leader had begun goes on."""
    pool = await make_pool(requirements=SMALL)
    async with observe(pool) as seen:
        old = await holder(kube)
        await pool.deploy(2)
        await claimed(pool, 2)
        assert await asyncio.to_thread(replicas.leader.worker.stop) == 0
        assert await holder(kube) != old
        replicas.swap()
        await led_by_another(kube, old)
        await pool.deploy(1, "late")
        await seen.whole(pool)
        assert seen.bought(pool) == 3
        await pool.scale(0)
        await pool.scale(0, "late")


async def test_a_leader_whose_watches_stall_still_serves_pods(
    replicas: Replicas, make_pool: MakePool, observe: Observe, kube: Kube
) -> None:
    """It notices the silence, asks anew, and buys what the pods need once."""
    pool = await make_pool(requirements=SMALL)
    async with observe(pool) as seen:
        old = await holder(kube)
        replicas.leader.api.stall_watches()
        await pool.deploy(2)
        await seen.whole(pool)
        assert seen.bought(pool) == 2
        assert await holder(kube) == old
        replicas.leader.api.release()
        await pool.scale(0)
