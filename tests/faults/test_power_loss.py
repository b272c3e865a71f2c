"""The leader's machine loses its power: nothing closes its connections, and no server hears of it for a minute."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
import pytest_asyncio

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import TooManyRequestsError
from activities.kubernetes.resources import PODS
from sandbox.cluster import Sandbox
from sandbox.faults.apiproxy import ApiProxy
from sandbox.faults.wire import Wire
from tenon.apis import labels
from tenon.kube.planned_pods import parse_planned
from tests.e2e.conftest import MakePool
from tests.e2e.pools import KEY, NAMESPACE, SMALL, Pool
from tests.e2e.worker_process import WorkerProcess
from tests.faults.conftest import Observe
from tests.faults.test_two_replicas import Replica, holder, led_by_another, replica
from tests.workflows.waiting import until

log = logging.getLogger(__name__)

PODS_WAITING = 50
LONG_POLL = 180.0
"""Seconds, less than a question that a lost machine took with it would block all provisioning."""


@dataclass
class Machine:
    """A replica, and the wire between it and Temporal."""

    replica: Replica
    wire: Wire

    async def lose_power(self) -> None:
        """Nothing of it runs or is heard of, and all its connections seem to stand."""
        self.wire.cut()
        await asyncio.to_thread(self.replica.worker.freeze)

    async def remove(self) -> None:
        """What is left of it ends; nothing that it had said and that was not delivered is delivered now."""
        if self.replica.worker.running:
            await asyncio.to_thread(self.replica.worker.crash)


@dataclass
class Machines:
    """Two of them."""

    leader: Machine
    standby: Machine


@pytest_asyncio.fixture(loop_scope="session")
async def machines(sandbox: Sandbox, kube: Kube, worker: WorkerProcess, api: ApiProxy) -> AsyncIterator[Machines]:
    """Two replicas in place of the package's worker, which is started again afterwards."""
    assert await asyncio.to_thread(worker.stop) == 0
    async with AsyncExitStack() as stack:
        own = stack.enter_context(ApiProxy.start(sandbox))
        found = []
        for number, proxy in enumerate((api, own)):
            wire = await stack.enter_async_context(Wire.to(sandbox.temporal_address))
            found.append(Machine(replica(sandbox, proxy, number, TEMPORAL_ADDRESS=wire.address), wire))
        before = await holder(kube)
        try:
            await asyncio.to_thread(found[0].replica.worker.start)
            await led_by_another(kube, before)
            await asyncio.to_thread(found[1].replica.worker.start)
            yield Machines(*found)
        finally:
            for each in found:
                await each.remove()
            await asyncio.to_thread(worker.start)


async def waiting(kube: Kube, pool: Pool) -> set[str]:
    """The UIDs of the pool's pods, once all exist."""
    pods: set[str] = set()

    async def all_exist() -> bool:
        found = await kube.list(PODS, namespace=NAMESPACE, label_selector=f"{KEY}={pool.name}")
        pods.update(pod["metadata"]["uid"] for pod in found)
        return len(pods) == PODS_WAITING

    await until(all_exist)
    return pods


async def planned(pool: Pool) -> set[str]:
    """The UIDs of the pods that NodeClaims were made for."""
    return {
        pod.uid
        for claim in await pool.claims()
        for pod in parse_planned((claim["metadata"].get("annotations") or {}).get(labels.PLANNED_PODS, ""))
    }


async def collecting(leader: Replica, deploy: Callable[[], Awaitable[None]]) -> None:
    """The leader waits for pods, and is lost before it sees them."""
    leader.api.stall_watches("pods")
    await deploy()


async def in_the_middle_of_a_plan(leader: Replica, deploy: Callable[[], Awaitable[None]]) -> None:
    """The leader is about to write the first NodeClaim of its plan."""
    leader.api.hold("POST", "/nodeclaims$", count=None)
    await deploy()

    async def writing() -> bool:
        return leader.api.held() > 0

    await until(writing)


@pytest.mark.parametrize("moment", [collecting, in_the_middle_of_a_plan])
async def test_pods_that_wait_are_planned_within_a_minute_of_the_power_loss_of_the_leader(
    machines: Machines,
    make_pool: MakePool,
    observe: Observe,
    kube: Kube,
    moment: Callable[[Replica, Callable[[], Awaitable[None]]], Awaitable[None]],
    record_property: Callable[[str, object], None],
) -> None:
    """Temporal still gives tasks to the polls of the lost machine: questions to the planner must not go to them."""
    pool = await make_pool(requirements=SMALL)
    async with observe(pool) as seen:
        old = await holder(kube)
        await moment(machines.leader.replica, lambda: pool.deploy(PODS_WAITING))
        pods = await waiting(kube, pool)
        assert not await planned(pool)
        await machines.leader.lose_power()
        clock = asyncio.get_running_loop().time
        lost_at = clock()
        await led_by_another(kube, old)
        took_over = clock() - lost_at

        async def all_planned() -> bool:
            try:
                return await planned(pool) >= pods
            except TooManyRequestsError:  # for a moment, while the new leader converts v1beta1 at its own port
                return False

        await until(all_planned, within=LONG_POLL)
        record_property("seconds to the new leader", round(took_over, 1))
        record_property("seconds to the last plan", round(clock() - lost_at, 1))
        log.warning("Led by another after %.1f s, all planned after %.1f s", took_over, clock() - lost_at)
        await seen.whole(pool)
        assert len(await pool.claims()) == seen.bought(pool)
        await pool.scale(0)


async def test_a_leader_that_alone_is_cut_off_from_temporal_hands_over(
    machines: Machines, make_pool: MakePool, observe: Observe, kube: Kube
) -> None:
    """It sees the cluster and could renew its Lease for ever, and plans nothing."""
    pool = await make_pool(requirements=SMALL)
    async with observe(pool) as seen:
        old = await holder(kube)
        machines.leader.wire.cut()
        await pool.deploy(2)
        await led_by_another(kube, old)
        await seen.whole(pool)
        assert seen.bought(pool) == 2
        machines.leader.wire.mend()
        await pool.deploy(1, "late")
        await seen.whole(pool)
        assert seen.bought(pool) == 3
        await pool.scale(0)
        await pool.scale(0, "late")
