"""What happens on a real sandbox while the histories of all its workflows are recorded: one function a scenario."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from temporalio.client import Client

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS, NODEPOOLS
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tests.e2e.pools import SMALL, Pool, fresh_pool
from tests.e2e.restart_right import may_restart
from tests.e2e.worker_process import WorkerProcess
from tests.workflows.waiting import until
from workflows import names
from workflows.housekeeping import schedule_id


@dataclass(frozen=True)
class Scene:
    """Everything that a scenario may touch."""

    sandbox: Sandbox
    worker: WorkerProcess
    kube: Kube
    client: Client


async def a_pod_comes_and_goes(scene: Scene) -> None:
    """A node is bought, its pods are bound; they go, and so does the node, as empty."""
    async with fresh_pool(scene.kube, scene.sandbox) as pool:
        await pool.deploy(2)
        await pool.running(2)
        claims = await pool.claims()
        await pool.scale(0)
        for claim in claims:
            await pool.gone(claim["metadata"]["name"])


async def spot_is_sold_out(scene: Scene) -> None:
    """EC2 refuses all spot offerings: the provisioner hears of it, and an on-demand node is bought."""
    ec2 = scene.sandbox.ec2()
    async with fresh_pool(scene.kube, scene.sandbox, requirements=SMALL) as pool:
        ec2.capacity(0, capacity_type="spot")
        try:
            await pool.pod("one")
            await pool.running(1)
        finally:
            ec2.clear_capacity()


async def the_worker_dies_while_a_node_boots(scene: Scene) -> None:
    """Both processes are killed and come back; two nodes live on; one is cancelled, one force-drained."""
    async with fresh_pool(scene.kube, scene.sandbox, requirements=SMALL, consolidate_after="Never") as pool:
        await pool.deploy(2)
        await until(lambda: _named(pool, 2))
        scene.worker.crash()
        scene.worker.start()
        first, second = await pool.settled(2)
        ids = [names.nodeclaim_id(scene.sandbox.cluster_name, c["metadata"]["name"]) for c in (first, second)]
        await pool.protect("web")
        await scene.client.get_workflow_handle(ids[0]).cancel()
        await scene.client.get_workflow_handle(ids[1]).signal("force_drain")
        await pool.gone(second["metadata"]["name"])
        await scene.client.get_workflow_handle(ids[0]).signal("force_drain")
        await pool.gone(first["metadata"]["name"])


async def garbage_is_collected(scene: Scene) -> None:
    """An instance that nobody owns is ended by the schedule's workflow, and so is a life whose claim was torn away."""
    async with fresh_pool(scene.kube, scene.sandbox) as pool:
        await pool.deploy(1)
        (claim,) = await pool.settled(1)
        (instance,) = pool.instances()
        scene.sandbox.ec2().kill_instance(instance["id"])
        handle = scene.client.get_schedule_handle(schedule_id(scene.sandbox.cluster_name))

        async def collected() -> bool:
            await handle.trigger()
            await asyncio.sleep(3)
            return await scene.kube.get(NODECLAIMS, claim["metadata"]["name"]) is None

        await until(collected, within=120)
        await pool.running(1)


async def a_drifted_node_is_replaced(scene: Scene) -> None:
    """A command replaces one node; another, for which EC2 has no capacity, is undone."""
    template = {"spec": {"template": {"metadata": {"labels": {"tier": "gold"}}}}}
    async with fresh_pool(scene.kube, scene.sandbox, requirements=SMALL, consolidate_after="Never") as pool:
        await pool.deploy(1)
        await pool.running(1)
        (old,) = await pool.settled(1)
        await scene.kube.patch(NODEPOOLS, pool.name, template)
        await pool.gone(old["metadata"]["name"])
        (new,) = await pool.settled(1)
        scene.sandbox.ec2().capacity(0)
        template["spec"]["template"]["metadata"]["labels"]["tier"] = "silver"
        await scene.kube.patch(NODEPOOLS, pool.name, template)
        await pool.seen(new["metadata"]["name"], "DisruptionWaitingReadiness")
        await until(lambda: _named(pool, 1))
        scene.sandbox.ec2().clear_capacity()


async def a_cheaper_node_takes_over(scene: Scene) -> None:
    """A consolidation whose pod starts its successor first, and which says what it saves."""
    on_demand = [{"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}]
    policy = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1s"}
    with may_restart(scene.sandbox):
        async with fresh_pool(scene.kube, scene.sandbox, requirements=on_demand, consolidate_after="Never") as pool:
            await pool.deploy(1, app="big", cpu="14")
            await pool.deploy(1, app="small", cpu="500m", annotations={labels.SURGE: "true"})
            await pool.running(2)
            (old,) = await pool.settled(1)
            await pool.scale(0, app="big")
            await pool.running(1)
            await scene.kube.patch(NODEPOOLS, pool.name, {"spec": {"disruption": policy}})
            await pool.gone(old["metadata"]["name"])
            await pool.seen(pool.name, "ConsolidationMeasured")
            await pool.running(1)


async def a_load_falls(scene: Scene) -> None:
    """Two nodes are left with one small pod each. Both pods fit on a third node, and leave at the same time."""
    on_demand = [{"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}]
    policy = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1s"}
    with may_restart(scene.sandbox):
        async with fresh_pool(scene.kube, scene.sandbox, requirements=on_demand, consolidate_after="Never") as pool:
            claims: list[str] = []
            for number in range(3):
                await pool.deploy(1, app=f"big-{number}", cpu="12")
                await pool.deploy(1, app=f"small-{number}", cpu="500m")
                await pool.running(2 * (number + 1))
                claims = [claim["metadata"]["name"] for claim in await pool.settled(number + 1)]
            for number in range(2):
                await pool.scale(0, app=f"big-{number}")
            await pool.running(4)
            await scene.kube.patch(NODEPOOLS, pool.name, {"spec": {"disruption": policy}})
            await until(lambda: _named(pool, 1), within=180)
            await pool.running(4)
            assert {claim["metadata"]["name"] for claim in await pool.claims()} < set(claims)


async def _named(pool: Pool, count: int) -> bool:
    return len(await pool.claims()) == count


Scenario = Callable[[Scene], Awaitable[None]]
SCENARIOS: dict[str, Scenario] = {
    "a-pod-comes-and-goes": a_pod_comes_and_goes,
    "spot-is-sold-out": spot_is_sold_out,
    "the-worker-dies-while-a-node-boots": the_worker_dies_while_a_node_boots,
    "garbage-is-collected": garbage_is_collected,
    "a-drifted-node-is-replaced": a_drifted_node_is_replaced,
    "a-cheaper-node-takes-over": a_cheaper_node_takes_over,
    "a-load-falls": a_load_falls,
}
