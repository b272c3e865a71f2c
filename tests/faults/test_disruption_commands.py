"""A disruption command completes once or is undone once, whatever dies, is refused or arrives in the middle of it.

One kill meets several commands at once, each in another step and in a NodePool of its own. An operator who terminates a
command, a replacement without capacity, and a pod that arrives on a candidate have a test each.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, TypeAlias

import pytest
import pytest_asyncio
from temporalio.client import Client

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS, NODEPOOLS, NODES
from sandbox.cluster import Sandbox
from sandbox.ec2.client import Ec2Admin
from sandbox.faults.apiproxy import ApiProxy
from tenon.apis import labels
from tests.e2e.conftest import NewPool
from tests.e2e.pools import SMALL, Pool, condition, leaving
from tests.e2e.worker_process import WorkerProcess
from tests.faults.conftest import Observe
from tests.faults.observer import Observer, watching
from tests.workflows.waiting import until

Outcomes: TypeAlias = dict[str, BaseException | None]

MOMENTS = (
    "before-the-candidate-is-marked",
    "before-the-old-node-is-deleted",
    "before-the-replacement-is-launched",
    "before-the-replacement-is-created",
    "after-the-replacement-is-created",
)
LONG = 240.0
"""Seconds within which a command ends after its worker was killed: a heartbeat is missed, then its step is repeated."""


async def drift(pool: Pool) -> None:
    """Change the NodePool so that its nodes drift."""
    template = {"metadata": {"labels": {"tier": "gold"}}}
    await pool.kube.patch(NODEPOOLS, pool.name, {"spec": {"template": template}})


class Held:
    """Waits until so many calls are held in all."""

    def __init__(self, api: ApiProxy, ec2: Ec2Admin) -> None:
        self._api, self._ec2 = api, ec2
        self._api_calls = self._ec2_calls = 0

    async def one_more(self, *, api: int = 0, ec2: int = 0) -> None:
        self._api_calls += api
        self._ec2_calls += ec2

        async def all_held() -> bool:
            held = await asyncio.to_thread(self._api.held), await asyncio.to_thread(self._ec2.held)
            return held[0] >= self._api_calls and held[1] >= self._ec2_calls

        await until(all_held, within=90)


async def reach(pools: dict[str, Pool], api: ApiProxy, ec2: Ec2Admin) -> None:
    """Bring the command of each pool to its moment. Holds that are not specific to a pool come last."""
    held = Held(api, ec2)
    pool = pools["before-the-candidate-is-marked"]
    api.hold("PATCH", f"/nodeclaims/{pool.name}-[^/]+$", count=None)
    await drift(pool)
    await held.one_more(api=1)
    pool = pools["before-the-old-node-is-deleted"]
    api.hold("DELETE", f"/nodeclaims/{pool.name}-[^/]+$", count=None)
    await drift(pool)
    await held.one_more(api=1)
    ec2.hold("CreateFleet")
    await drift(pools["before-the-replacement-is-launched"])
    await held.one_more(ec2=1)
    pool = pools["before-the-replacement-is-created"]
    api.hold("POST", "/nodeclaims$")
    await drift(pool)
    await command_of(pool, (await pool.claim())["metadata"]["name"])
    await held.one_more(api=1)
    pool = pools["after-the-replacement-is-created"]
    api.hold("POST", "/nodeclaims$", after_effect=True)
    await drift(pool)

    async def created() -> bool:
        return len(await pool.claims()) == 2

    await until(created, within=90)


async def outcome(seen: Observer, pool: Pool, old: str) -> None:
    """The drifted node is gone, its pod runs on a new one, and nothing is left when the pod has gone."""
    await pool.gone(old, within=LONG)
    await seen.whole(pool)
    (new,) = await pool.settled(1)
    assert new["metadata"]["labels"]["tier"] == "gold"
    await pool.scale(0)
    await pool.kube.patch(NODEPOOLS, pool.name, {"spec": {"disruption": {"consolidateAfter": "1s"}}})
    await seen.nothing_left(pool)
    seen.judge(pool)


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
        made = [
            await stack.enter_async_context(new_pool(requirements=SMALL, consolidate_after="Never")) for _ in MOMENTS
        ]
        pools = dict(zip(MOMENTS, made, strict=True))
        seen = await stack.enter_async_context(watching(kube, sandbox, *made))
        for pool in made:
            seen.may_move(pool)
            await pool.deploy(1)
        await asyncio.gather(*(pool.running(1) for pool in made))
        old = {pool.name: (await pool.settled(1))[0]["metadata"]["name"] for pool in made}
        await reach(pools, api, ec2)

        await asyncio.to_thread(worker.kill, request.param)
        api.release()
        ec2.release()
        await asyncio.to_thread(worker.start)
        found = await asyncio.gather(*(outcome(seen, pool, old[pool.name]) for pool in made), return_exceptions=True)
        yield dict(zip(MOMENTS, found, strict=True)), {moment: seen.bought(pool) for moment, pool in pools.items()}


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_killed_worker_neither_forgets_a_command_nor_repeats_it(
    killed: tuple[Outcomes, dict[str, int]], moment: str
) -> None:
    """One replacement was bought, and it took over."""
    outcomes, bought = killed
    failure = outcomes[moment]
    if failure is not None:
        raise failure
    assert bought[moment] == 2


async def marked(pool: Pool, claim: str) -> bool:
    """Whether anything of a command is left on a NodeClaim or its Node."""
    found = await pool.kube.get(NODECLAIMS, claim)
    assert found is not None
    node = await pool.kube.get(NODES, found["status"]["nodeName"])
    assert node is not None
    tainted = any(taint["key"] == labels.DISRUPTED_TAINT[0] for taint in node["spec"].get("taints") or ())
    annotated = labels.DISRUPTED_BY in found["metadata"]["annotations"]
    return tainted or annotated or condition(found, "DisruptionReason").get("status") == "True"


async def command_of(pool: Pool, claim: str) -> str:
    """Wait until a command has marked a NodeClaim; its ID."""
    found: list[str] = []

    async def has_command() -> bool:
        body = await pool.kube.get(NODECLAIMS, claim)
        assert body is not None
        found[:] = [body["metadata"]["annotations"].get(labels.DISRUPTED_BY, "")]
        return bool(found[0]) and await marked(pool, claim)

    await until(has_command, within=90)
    return found[0]


async def test_a_terminated_command_frees_its_nodes_and_the_next_one_uses_its_replacement(
    make_pool: Any, observe: Observe, api: ApiProxy, ec2: Ec2Admin, client: Client, sandbox: Sandbox
) -> None:
    """An operator terminates the workflow while the replacement launches. Nothing is bought a second time."""
    pool: Pool = await make_pool(requirements=SMALL, consolidate_after="Never")
    async with observe(pool) as seen:
        seen.may_move(pool)
        await pool.deploy(1)
        await pool.running(1)
        (old,) = await pool.settled(1)
        name = old["metadata"]["name"]
        ec2.hold("CreateFleet")
        await drift(pool)
        first = await command_of(pool, name)
        await client.get_workflow_handle(f"disruption-command/{sandbox.cluster_name}/{first}").terminate("by a test")
        ec2.release()

        async def freed() -> bool:
            found = await pool.kube.get(NODECLAIMS, name)
            return found is None or leaving(found) or found["metadata"]["annotations"].get(labels.DISRUPTED_BY) != first

        await until(freed, within=LONG)
        await pool.gone(name, within=2 * LONG)
        await pool.running(1)
        await pool.settled(1)
        assert seen.bought(pool) == 2
        await pool.scale(0)
        await pool.kube.patch(NODEPOOLS, pool.name, {"spec": {"disruption": {"consolidateAfter": "1s"}}})


async def test_dis_65_without_capacity_for_the_replacement_the_node_stays_and_is_freed(
    make_pool: Any, observe: Observe, ec2: Ec2Admin
) -> None:
    """The pod never moves."""
    pool: Pool = await make_pool(requirements=SMALL, consolidate_after="Never")
    async with observe(pool) as seen:
        await pool.deploy(1)
        (pod,) = await pool.running(1)
        (old,) = await pool.settled(1)
        name = old["metadata"]["name"]
        ec2.capacity(0)
        await drift(pool)
        await pool.seen(name, "DisruptionWaitingReadiness")  # the command may be over a moment later

        async def undone() -> bool:
            return not await marked(pool, name) and len(await pool.claims()) == 1

        await until(undone, within=LONG)
        ec2.clear_capacity()
        assert [one["metadata"]["uid"] for one in await pool.running(1)] == [pod["metadata"]["uid"]]
        assert seen.bought(pool) == 1
        await pool.scale(0)
        await pool.kube.patch(NODEPOOLS, pool.name, {"spec": {"disruption": {"consolidateAfter": "1s"}}})


async def test_a_pod_that_arrives_on_a_candidate_undoes_a_consolidation(
    make_pool: Any, observe: Observe, ec2: Ec2Admin
) -> None:
    """It tolerates the taint. The replacement, which has no pod, goes again."""
    on_demand = [{"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}]
    pool: Pool = await make_pool(requirements=on_demand, consolidate_after="Never")
    async with observe(pool) as seen:
        await pool.deploy(1, app="big", cpu="14")
        await pool.deploy(1, cpu="500m")
        await pool.running(2)
        (old,) = await pool.settled(1)
        name = old["metadata"]["name"]
        await pool.scale(0, app="big")
        ec2.hold("CreateFleet")
        policy = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1s"}
        await pool.kube.patch(NODEPOOLS, pool.name, {"spec": {"disruption": policy}})
        await command_of(pool, name)
        never = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"}
        await pool.kube.patch(NODEPOOLS, pool.name, {"spec": {"disruption": never}})
        await pool.pod("late", nodeName=old["status"]["nodeName"], tolerations=[{"operator": "Exists"}])
        ec2.release()

        async def undone() -> bool:
            return not await marked(pool, name) and len(await pool.claims()) == 1

        await until(undone, within=LONG)
        await pool.running(2)
        assert seen.bought(pool) == 2
        await pool.delete_pod("late")
        await pool.scale(0)
        await pool.kube.patch(NODEPOOLS, pool.name, {"spec": {"disruption": {"consolidateAfter": "1s"}}})
