"""New nodes that kube-scheduler does not give to their pods, for a reason that no plan knows (SCH-018, DIS-01)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ConflictError, NotFoundError
from activities.kubernetes.resources import NODEPOOLS, NODES
from tenon.kube.claim_record import ClaimRecord
from tests.e2e.conftest import MakePool
from tests.e2e.pools import SMALL, Object, Pool
from tests.workflows.waiting import until

CNI = {"key": "node.cilium.io/agent-not-ready", "effect": "NoSchedule"}
HALF = "8Gi"
"""Of the 20 GiB that a plan counts with, less what the kubelet keeps."""


@asynccontextmanager
async def each_node(pool: Pool, change: Callable[[Object], Awaitable[None]]) -> AsyncIterator[None]:
    """Change each Node of a pool as soon as it is there, again and again."""

    async def change_all() -> bool:
        for node in await pool.nodes():
            try:
                await change(node)
            except (NotFoundError, ConflictError):
                continue  # it has gone or has changed meanwhile
        return False

    changing = asyncio.create_task(until(change_all, within=3600.0))
    try:
        yield
    finally:
        changing.cancel()
        await asyncio.gather(changing, return_exceptions=True)


async def test_sch018_nodes_smaller_than_planned_are_not_bought_without_end(make_pool: MakePool, kube: Kube) -> None:
    """The kubelet reports less ephemeral storage than planned. The third node waits for a change or a minute."""
    pool = await make_pool(requirements=SMALL)

    async def shrink(node: Object) -> None:
        if node["status"].get("allocatable", {}).get("ephemeral-storage") != HALF:
            status = {"status": {"allocatable": {"ephemeral-storage": HALF}}}
            await kube.patch(NODES, node["metadata"]["name"], status, subresource="status")

    async with each_node(pool, shrink):
        requests = {"cpu": "200m", "ephemeral-storage": "12Gi"}
        await pool.pod("scratch", containers=[{"name": "main", "image": "pause", "resources": {"requests": requests}}])
        text = await pool.seen(f"{pool.name}-scratch", "FailedScheduling", "Tenon bought", within=400.0)
        assert "Tenon bought 2 nodes" in text
        assert "Insufficient ephemeral-storage" in text
        assert len(pool.instances()) == 2
        await pool.seen(pool.name, "NodesNotUsed", f"{pool.name}-scratch")
        await kube.patch(NODEPOOLS, pool.name, {"spec": {"weight": 2}})  # who mends a pool does not wait

        async def third() -> bool:
            return len(pool.instances()) == 3

        await until(third, within=60.0)


async def test_dis01_a_node_stays_while_a_cni_that_starts_slowly_keeps_its_pods_away(
    make_pool: MakePool, kube: Kube
) -> None:
    """The CNI's taint is in no startupTaints and stays longer than consolidateAfter: one node, and the pods run."""
    pool = await make_pool(requirements=SMALL)
    tainted: set[str] = set()

    async def taint(node: Object) -> None:
        if node["metadata"]["name"] not in tainted:
            taints = [*(node["spec"].get("taints") or []), CNI]
            version = {"resourceVersion": node["metadata"]["resourceVersion"]}
            await kube.patch(NODES, node["metadata"]["name"], {"metadata": version, "spec": {"taints": taints}})
            tainted.add(node["metadata"]["name"])

    async with each_node(pool, taint):
        await pool.deploy(1)

        async def would_have_left() -> bool:
            since = [ClaimRecord.of(claim).initialized_at for claim in await pool.claims()]
            return any(item is not None and datetime.now(UTC) - item > timedelta(seconds=75) for item in since)

        await until(would_have_left, within=400.0)
        (node,) = await pool.nodes()
        assert not any(pod["spec"].get("nodeName") for pod in await pool.pods())
        taints = [taint for taint in node["spec"]["taints"] if taint["key"] != CNI["key"]]
        await kube.patch(NODES, node["metadata"]["name"], {"spec": {"taints": taints}})
        await pool.running(1)
    assert len(pool.instances()) == 1
