"""Nodes whose pods run cheaper elsewhere are removed, also if they are not empty (DIS-04, DIS-05)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio.client import Client

from activities.kubernetes.resources import NODEPOOLS
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tenon.messages.disruption import MeasuredSaving, SavingReport
from tests.e2e.conftest import MakePool
from tests.e2e.pools import WITHIN, Pool, condition
from tests.workflows.waiting import until
from workflows import names
from workflows.disruption import DisruptionWorkflow

FOUR = [{"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["4"]}]
ON_DEMAND = [{"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}]
SAVES = re.compile(r"Command underutilized-\w+ saves \$([\d.]+) an hour; \$([\d.]+) was predicted")
UNDERUTILIZED = {"spec": {"disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1s"}}}


async def one_claim(pool: Pool) -> bool:
    return len(await pool.claims()) == 1


async def says_what_it_saves(pool: Pool) -> bool:
    """EC2 launched the cheapest type, so the saving is the one that was predicted."""
    texts = [str(event["message"]) for event in await pool.events(pool.name, "ConsolidationMeasured")]
    matches = [match for text in texts if (match := SAVES.fullmatch(text))]
    assert len(matches) == len(texts)
    return bool(matches) and all(float(item[1]) == float(item[2]) > 0 for item in matches)


async def test_dis_04_two_half_empty_nodes_become_one(make_pool: MakePool) -> None:
    """The pod of one node moves to the other. Nothing is bought, and both pods run."""
    pool = await make_pool(consolidate_after="Never", requirements=FOUR)
    for number in range(4):
        await pool.deploy(1, app=f"a{number}", cpu="1700m")
        pods = await pool.running(number + 1)  # a claim without an instance has no room for more than its own pods
    await pool.settled(2)
    launched = len(pool.instances())
    by_node: dict[str, list[Any]] = {}
    for pod in pods:
        by_node.setdefault(pod["spec"]["nodeName"], []).append(pod)
    assert sorted(map(len, by_node.values())) == [2, 2]
    for present_items in by_node.values():
        app = present_items[0]["metadata"]["labels"]["app"].removeprefix(f"{pool.name}-")
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
    await pool.running(1)
    await pool.deploy(1, app="small", cpu="500m")  # first in a batch of its own, it would get a small node
    await pool.running(2)
    (old,) = await pool.settled(1)
    name = old["metadata"]["name"]
    await pool.scale(0, app="big")
    await pool.running(1)
    await pool.kube.patch(NODEPOOLS, pool.name, UNDERUTILIZED)
    await pool.gone(name)
    await pool.running(1)
    (new,) = await pool.settled(1)
    before, after = (int(item["status"]["capacity"]["cpu"]) for item in (old, new))
    assert after < before
    await until(lambda: says_what_it_saves(pool))


async def test_wsh01_a_pool_whose_moves_do_not_pay_waits_and_says_so(
    make_pool: MakePool, client: Client, sandbox: Sandbox
) -> None:
    """Two commands report that they saved less than predicted. A node stays that would be replaced, until one pays."""
    pool = await make_pool(consolidate_after="Never", requirements=ON_DEMAND)
    await pool.deploy(1, app="big", cpu="14")
    await pool.running(1)
    await pool.deploy(1, app="small", cpu="500m")  # first in a batch of its own, it would get a small node
    await pool.running(2)
    (old,) = await pool.settled(1)
    claim, node = old["metadata"]["name"], old["status"]["nodeName"]
    await pool.scale(0, app="big")
    await pool.running(1)
    workflow = client.get_workflow_handle(names.disruption_id(sandbox.cluster_name))

    async def reports(number: int, reached: float) -> None:
        """What a command's workflow sends when the command is over."""
        saving = MeasuredSaving(predicted=0.2, reached=reached)
        started = datetime.now(UTC) + timedelta(minutes=number)
        await workflow.signal(
            DisruptionWorkflow.saved, SavingReport(command=f"c{number}", started=started, pools={pool.name: saving})
        )

    async def slowed() -> dict[str, Any]:
        return condition(await pool.kube.get(NODEPOOLS, pool.name), "ConsolidationSlowed")

    async def is_slowed() -> bool:
        return (await slowed()).get("status") == "True"

    async def is_told(message: str) -> bool:
        return [str(event["message"]) for event in await pool.events(pool.name, "ConsolidationSlowed")] == [message]

    async def says_why_it_stays() -> bool:
        events = [*await pool.events(claim, "Unconsolidatable"), *await pool.events(node, "Unconsolidatable")]
        return any("is slowed down: the last consolidation commands saved" in str(event["message"]) for event in events)

    await reports(1, 0.05)
    await reports(2, 0.05)
    await until(is_slowed, within=WITHIN)
    result = await slowed()
    assert result["reason"] == "WaitsAfterCommand"
    assert "saved $0.1000 an hour instead of $0.4000" in result["message"]
    await until(lambda: is_told(result["message"]), within=WITHIN)
    await pool.kube.patch(NODEPOOLS, pool.name, UNDERUTILIZED)
    await until(says_why_it_stays, within=WITHIN)
    assert [claim["metadata"]["name"] for claim in await pool.claims()] == [claim]
    assert condition(await pool.kube.get(NODEPOOLS, pool.name), "Ready")["status"] == "True"
    await reports(3, 0.2)
    await pool.gone(claim)
    assert await slowed() == {}
