"""The scale-in of an article about Karpenter: 400 pods of 0.25 CPU become 200, and their nodes half empty.

There, both nodes stayed. Consolidation makes them as cheap as nodes that were bought for the 200 pods alone, within 5 %
(DIS-04, DIS-05), and the pods' PodDisruptionBudget holds at every moment (DIS-13).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import dropwhile

import pytest

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODEPOOLS, PODS
from benchmarks.bill import bill, pool_of, price_of
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tests.e2e.conftest import MakePool
from tests.e2e.moments import Moments, recorded
from tests.e2e.pools import KEY, WITHIN, condition, leaving
from tests.workflows.waiting import until

BEFORE, AFTER = 400, 200
MAX_UNAVAILABLE = 10
"""Of the 200 pods."""
MAX_RATIO = 1.05
ON_DEMAND = [{"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}]
CONTAINER = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}}}
UNDERUTILIZED = {"spec": {"disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1s"}}}


def ready(moments: Moments) -> Iterator[int]:
    """At every moment, how many pods are ready as a PodDisruptionBudget counts them."""
    for objects in moments.replay():
        present_items = objects.get("Pod", {}).values()
        yield sum(not leaving(pod) and condition(pod, "Ready").get("status") == "True" for pod in present_items)


@pytest.mark.alone  # kube-scheduler must see what Tenon binds before it binds itself
async def test_dis04_half_of_the_pods_go_and_the_rest_costs_what_a_repack_costs(
    make_pool: MakePool, kube: Kube, sandbox: Sandbox
) -> None:
    """No pod is left pending, and never are more pods away than the budget allows."""
    pool = await make_pool(consolidate_after="Never", requirements=ON_DEMAND)
    bought = await pool_of(sandbox, kube, pool.name)
    async with recorded(kube, f"{KEY}={pool.name}", (PODS,)) as moments:
        await pool.deploy(BEFORE, containers=[CONTAINER])
        await pool.protect("web", max_unavailable=MAX_UNAVAILABLE)
        await pool.running(BEFORE)
        await pool.scale(AFTER)
        pods = await pool.running(AFTER)
        cost = await asyncio.to_thread(bill, await pool.claims(), pods, bought)
        assert cost.ratio > MAX_RATIO, "there is something to save"
        await kube.patch(NODEPOOLS, pool.name, UNDERUTILIZED)

        async def cheap() -> bool:
            return price_of(await pool.claims(), bought.instance_types) <= MAX_RATIO * cost.repacked_price

        async def repacked() -> bool:
            """Both at once: a node may be bought for pods that moved, and go again."""
            if not await cheap():
                return False
            phases = [pod["status"]["phase"] for pod in await pool.pods()]
            return phases == ["Running"] * AFTER and await cheap()

        await until(repacked, within=3 * WITHIN)
    course = list(dropwhile(lambda present_items: present_items < BEFORE, ready(moments)))
    assert AFTER - MAX_UNAVAILABLE <= min(course) < AFTER
