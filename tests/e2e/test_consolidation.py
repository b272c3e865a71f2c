"""Nodes whose pods run cheaper elsewhere are removed, also if they are not empty (DIS-04, DIS-05)."""

from __future__ import annotations

import re
from typing import Any

from activities.kubernetes.resources import NODEPOOLS
from tenon.apis import labels
from tests.e2e.conftest import MakePool
from tests.e2e.pools import WITHIN, Pool
from tests.workflows.waiting import until

FOUR = [{"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["4"]}]
ON_DEMAND = [{"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}]
SAVES = re.compile(r"Command underutilized-\w+ saves \$([\d.]+) an hour; \$([\d.]+) was predicted")
UNDERUTILIZED = {"spec": {"disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1s"}}}


async def one_claim(pool: Pool) -> bool:
    return len(await pool.claims()) == 1


async def says_what_it_saves(pool: Pool) -> bool:
    """EC2 launched the cheapest type, so the saving is the one that was predicted."""
    texts = [str(event["message"]) for event in await pool.events(pool.name, "ConsolidationMeasured")]
    found = [match for text in texts if (match := SAVES.fullmatch(text))]
    assert len(found) == len(texts)
    return bool(found) and all(float(each[1]) == float(each[2]) > 0 for each in found)


async def test_dis_04_two_half_empty_nodes_become_one(make_pool: MakePool) -> None:
    """The pod of one node moves to the other. Nothing is bought, and both pods run."""
    pool = await make_pool(consolidate_after="Never", requirements=FOUR)
    for number in range(4):
        await pool.deploy(1, app=f"a{number}", cpu="1700m")
    pods = await pool.running(4)
    await pool.settled(2)
    launched = len(pool.instances())
    by_node: dict[str, list[Any]] = {}
    for pod in pods:
        by_node.setdefault(pod["spec"]["nodeName"], []).append(pod)
    assert sorted(map(len, by_node.values())) == [2, 2]
    for there in by_node.values():
        app = there[0]["metadata"]["labels"]["app"].removeprefix(f"{pool.name}-")
        await pool.scale(0, app=app)
    await pool.running(2)
    await pool.kube.patch(NODEPOOLS, pool.name, UNDERUTILIZED)
    await until(lambda: one_claim(pool), within=WITHIN)
    await pool.running(2)
    assert len(pool.instances()) == launched


async def test_dis_05_a_node_is_replaced_by_a_cheaper_one(make_pool: MakePool) -> None:
    """Most of what it was bought for is gone. The new node is of another, cheaper type."""
    pool = await make_pool(consolidate_after="Never", requirements=ON_DEMAND)
    await pool.deploy(1, app="big", cpu="14")
    await pool.deploy(1, app="small", cpu="500m")
    await pool.running(2)
    (old,) = await pool.settled(1)
    name = old["metadata"]["name"]
    await pool.scale(0, app="big")
    await pool.running(1)
    await pool.kube.patch(NODEPOOLS, pool.name, UNDERUTILIZED)
    await pool.gone(name)
    await pool.running(1)
    (new,) = await pool.settled(1)
    before, after = (int(one["status"]["capacity"]["cpu"]) for one in (old, new))
    assert after < before
    await until(lambda: says_what_it_saves(pool), within=60)
