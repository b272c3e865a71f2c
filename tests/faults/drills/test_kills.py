"""SIGKILL to one of the worker's two processes, at every moment of a node's life that is worth dying at.

One kill meets all moments at once, each in a NodePool of its own. Then the worker is started again, and for every
moment apart it is judged whether anything was lost or bought twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, TypeAlias

import pytest
import pytest_asyncio

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS, NODEPOOLS
from sandbox.cluster import Sandbox
from sandbox.faults.apiproxy import ApiProxy
from tenon.apis import labels
from tests.e2e.conftest import NewPool
from tests.e2e.pools import SMALL, Pool, leaving
from tests.e2e.worker_process import WorkerProcess
from tests.faults.observer import Observer, watching
from tests.workflows.waiting import until

Outcomes: TypeAlias = dict[str, BaseException | None]

MOMENTS = {
    "before-the-launch": 1,
    "before-CreateFleet-arrives": 1,
    "before-CreateFleet-is-answered": 1,
    "before-the-claim-is-marked": 1,
    "before-the-node-joins": 1,
    "while-pods-are-bound": 1,
    "while-pods-are-evicted": 2,
    "before-TerminateInstances-is-answered": 1,
    "between-two-NodeClaims-of-a-plan": 2,
    "between-two-NodeClaims-of-a-static-pool": 3,
}
"""Each moment, and how many instances its pool needs in all."""
SLOW = "m5.xlarge"
"""The type whose nodes do not join before the kill."""


class Stage:
    """The pools, and what is held in each of them.

    A client that waits for half a minute asks again. That is held again where no other pool asks for the same; what is
    held only once comes last, one soon after the other.
    """

    def __init__(self, pools: dict[str, Pool], sandbox: Sandbox, api: ApiProxy) -> None:
        self._pools = pools
        self._sandbox = sandbox
        self._api = api
        self._ec2 = sandbox.ec2()

    async def set(self) -> None:
        """Bring every pool to its moment."""
        draining, terminating = (
            self._pools["while-pods-are-evicted"],
            self._pools["before-TerminateInstances-is-answered"],
        )
        for pool in (draining, terminating):
            await pool.deploy(1)
        await asyncio.gather(*(pool.settled(1) for pool in (draining, terminating)))
        await asyncio.gather(*(pool.running(1) for pool in (draining, terminating)))
        self._api.hold("POST", f"/pods/{draining.name}-[^/]+/eviction", count=None)
        await draining.kube.delete(NODECLAIMS, (await draining.claim())["metadata"]["name"])

        async def moving() -> bool:
            return len(await asyncio.to_thread(draining.instances)) == 2

        await until(moving)  # the node that its pod is to move to is bought
        await self._held(api=1, ec2=0)

        await self._launched_and_joined()
        for moment, action, after_effect in (
            ("before-the-launch", "CreateLaunchTemplate", False),
            ("before-CreateFleet-arrives", "CreateFleet", False),
            ("before-CreateFleet-is-answered", "CreateFleet", True),
        ):
            before = self._ec2.held()
            self._ec2.hold(action, after_effect=after_effect)
            await self._pools[moment].deploy(1)
            await self._held(api=4, ec2=before + 1)

        self._ec2.hold("TerminateInstances", after_effect=True)
        self._api.hold("POST", "/nodeclaims$", after_effect=True)
        await terminating.scale(0)
        await self._pools["between-two-NodeClaims-of-a-plan"].deploy(2)
        await self._held(api=5, ec2=4)

        self._api.hold("POST", "/nodeclaims$", after_effect=True)
        await _scale_static(self._pools["between-two-NodeClaims-of-a-static-pool"], 3)
        await self._held(api=6, ec2=4)

    async def _launched_and_joined(self) -> None:
        """Three that were launched: one is not marked so, one boots, and of one the pods are being bound."""
        unmarked, slow = self._pools["before-the-claim-is-marked"], self._pools["before-the-node-joins"]
        binding = self._pools["while-pods-are-bound"]
        self._api.hold("POST", f"/pods/{binding.name}-[^/]+/binding")
        self._api.hold("POST", f"/pods/{binding.name}-[^/]+/binding", after_effect=True)
        self._api.hold("PATCH", f"/nodeclaims/{unmarked.name}-[^/]+/status", count=None)
        self._ec2.boot(type=SLOW, never=True)
        await binding.deploy(2, cpu="100m")
        await slow.deploy(1)
        await unmarked.deploy(1)

        async def bought() -> bool:
            return all([await asyncio.to_thread(pool.instances) for pool in (unmarked, slow, binding)])

        await until(bought)
        await asyncio.to_thread(self._sandbox.freeze_component, "kube-scheduler")  # it would bind the pods itself
        try:
            await self._held(api=4, ec2=0)
        finally:
            await asyncio.to_thread(self._sandbox.thaw_component, "kube-scheduler")

    async def _held(self, *, api: int, ec2: int) -> None:
        numbers: list[int] = []

        async def all_held() -> bool:
            numbers[:] = [await asyncio.to_thread(self._api.held), await asyncio.to_thread(self._ec2.held)]
            return numbers[0] >= api and numbers[1] >= ec2

        try:
            await until(all_held)
        except TimeoutError:
            raise AssertionError(f"{numbers} calls to the API server and to EC2 are held, not {[api, ec2]}") from None


async def _scale_static(pool: Pool, replicas: int) -> None:
    await pool.kube.patch(NODEPOOLS, pool.name, {"spec": {"replicas": replicas}})


async def _outcome(observer: Observer, pool: Pool) -> None:
    """What was leaving is gone, all pods or replicas run; then the pool is emptied, and nothing may be left."""
    for claim in await pool.claims():
        if leaving(claim):
            await pool.gone(claim["metadata"]["name"], within=100)
    await observer.whole(pool)
    if replicas := (await pool.read())["spec"].get("replicas"):
        await pool.settled(replicas)
        await _scale_static(pool, 0)
    else:
        await pool.scale(0)
    await observer.nothing_left(pool)
    observer.judge(pool)


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=["io", "cluster"])
async def killed(
    request: pytest.FixtureRequest,
    worker: WorkerProcess,
    api: ApiProxy,
    sandbox: Sandbox,
    kube: Kube,
    new_pool: NewPool,
) -> AsyncIterator[tuple[Outcomes, dict[str, int]]]:
    """What became of each moment's pool, and how many instances it was seen to have."""
    ec2 = sandbox.ec2()
    async with AsyncExitStack() as stack:
        small: dict[str, Any] = {"requirements": SMALL}
        others = {
            "before-the-node-joins": {
                "requirements": [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": [SLOW]}]
            },
            "between-two-NodeClaims-of-a-static-pool": {**small, "replicas": 0},
        }
        entered = await asyncio.gather(
            *(stack.enter_async_context(new_pool(**others.get(moment, small))) for moment in MOMENTS)
        )
        pools = dict(zip(MOMENTS, entered, strict=True))
        observer = await stack.enter_async_context(watching(kube, sandbox, *entered))
        observer.may_move(pools["while-pods-are-evicted"])
        await Stage(pools, sandbox, api).set()

        await asyncio.to_thread(worker.kill, request.param)
        api.release()
        ec2.release()
        ec2.clear_boot()
        await asyncio.to_thread(worker.start)
        outcomes = await asyncio.gather(*(_outcome(observer, pool) for pool in entered), return_exceptions=True)
        yield (
            dict(zip(MOMENTS, outcomes, strict=True)),
            {moment: observer.bought(pool) for moment, pool in pools.items()},
        )


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_kill_loses_nothing_and_buys_nothing_twice(
    killed: tuple[Outcomes, dict[str, int]], moment: str
) -> None:
    """One instance for each claim, every pod runs again, and nothing is left when the pods have gone."""
    outcomes, bought = killed
    failure = outcomes[moment]
    if failure is not None:
        raise failure
    assert bought[moment] == MOMENTS[moment]
