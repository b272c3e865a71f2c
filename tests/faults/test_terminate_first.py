"""Nodes that leave before their replacements start: never more of them are away than the budget says.

So it stays when the worker dies in the middle, because the command that waits for a replacement is a workflow.
"""

from __future__ import annotations

import asyncio

import pytest
from temporalio.client import Client

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS, NODEPOOLS
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tests.e2e.conftest import MakePool
from tests.e2e.moments import Moments, recorded
from tests.e2e.pools import SMALL, Pool, condition, leaving
from tests.e2e.worker_process import WorkerProcess
from tests.workflows.waiting import until
from workflows import names

KIND, ZONE, TEAM = "m5.large", "us-west-2a", "terminate-first"
ANY = [
    {"key": labels.INSTANCE_TYPE, "operator": "In", "values": [KIND]},
    {"key": labels.ZONE, "operator": "In", "values": [ZONE]},
]
GOLD = {"spec": {"template": {"metadata": {"labels": {"tier": "gold"}}}}}
ROLLED_WITHIN = 600.0
"""Each node drains, ends, and is launched again, one after the other."""


def least_ready(moments: Moments, count: int) -> int:
    """The fewest NodeClaims that were ready for pods, and did not leave, since the watch has told of all of them."""
    ready: list[int] = [
        sum(
            condition(claim, "Initialized").get("status") == "True" and not leaving(claim)
            for claim in objects["NodeClaim"].values()
        )
        for objects in moments.replay()
    ]
    return min(ready[ready.index(count) :])


async def rolled(pool: Pool, count: int) -> None:
    """Wait until the pool has so many ready nodes, all as its template describes them."""

    async def gold() -> bool:
        claims = await pool.claims()
        return len(claims) == count and all(
            claim["metadata"]["labels"].get("tier") == "gold" and condition(claim, "Ready").get("status") == "True"
            for claim in claims
        )

    try:
        await until(gold, within=ROLLED_WITHIN)
    except TimeoutError:
        raise AssertionError(await pool.history()) from None


@pytest.mark.timeout(2400)
async def test_n15_192_n15_198_a_full_reservation_drifts_node_by_node(
    worker: WorkerProcess, make_pool: MakePool, kube: Kube, client: Client, sandbox: Sandbox
) -> None:
    """N15-191: the worker is killed when the first node has left and its replacement does not run yet."""
    reservation = sandbox.ec2().reserve(KIND, ZONE, 3, tags={"team": TEAM})
    pool = await make_pool(
        requirements=ANY,
        consolidate_after="Never",
        budgets=[{"nodes": "1"}],
        capacity_types=["reserved"],
        capacityReservationSelectorTerms=[{"tags": {"team": TEAM}}],
    )
    await pool.deploy(3)
    await pool.running(3)
    old = {str(claim["metadata"]["name"]) for claim in await pool.settled(3)}
    async with recorded(kube, f"{labels.NODEPOOL}={pool.name}", (NODECLAIMS,)) as moments:
        await kube.patch(NODEPOOLS, pool.name, GOLD)

        async def one_is_away() -> bool:
            return sum(claim["metadata"]["name"] in old and not leaving(claim) for claim in await pool.claims()) < 3

        await until(one_is_away, within=ROLLED_WITHIN)
        worker.crash()
        await asyncio.to_thread(worker.start)
        await rolled(pool, 3)
        await pool.running(3)
    assert least_ready(moments, 3) == 2
    assert all(claim["metadata"]["labels"][labels.RESERVATION_ID] == reservation for claim in await pool.claims()), (
        "each replacement has the place of the node that left"
    )

    query = f"WorkflowType = 'DisruptionCommand' AND {names.POOL.name} = '{pool.name}'"

    async def all_ended() -> bool:
        running = f"{query} AND ExecutionStatus = 'Running'"
        return not [command async for command in client.list_workflows(running)]

    await until(all_ended)
    results = [
        await client.get_workflow_handle(command.id, run_id=command.run_id).result()
        async for command in client.list_workflows(f"{query} AND ExecutionStatus = 'Completed'")
    ]
    replaced = {name for result in results if set(result.get("accepted", ())) & old for name in result["replaced_by"]}
    assert replaced == {str(claim["metadata"]["name"]) for claim in await pool.claims()}
    assert await pool.seen(pool.name, "ReplacementRunning", "replaced it")
    sandbox.ec2().end_reservation(reservation)


async def test_n15_196_a_static_pool_at_its_limit_drifts(make_pool: MakePool, kube: Kube) -> None:
    pool = await make_pool(replicas=2, requirements=SMALL, budgets=[{"nodes": "1"}])
    await kube.patch(NODEPOOLS, pool.name, {"spec": {"limits": {"nodes": "2"}}})
    await pool.settled(2)
    async with recorded(kube, f"{labels.NODEPOOL}={pool.name}", (NODECLAIMS,)) as moments:
        await kube.patch(NODEPOOLS, pool.name, GOLD)
        await rolled(pool, 2)
    assert least_ready(moments, 2) == 1
    assert max(len(objects["NodeClaim"]) for objects in moments.replay()) == 2
