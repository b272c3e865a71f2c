"""A capacity shortage from its first refused launch to its end: what users see, and what it leaves behind.

EC2 refuses the cheap types of two NodePools. What it still sells costs many times as much.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from activities.kubernetes.resources import EVENTS, NODEPOOLS
from sandbox.cluster import Sandbox
from sandbox.ec2.client import Ec2Admin
from sandbox.ec2.prices import read_prices
from tenon.apis import labels
from tenon.apis.nodepool import CAPACITY_AVAILABLE
from tests.e2e.conftest import MakePool, Run
from tests.e2e.moments import recorded
from tests.e2e.pools import KEY, Object, Pool, condition
from tests.faults.blocked import blocked_rows
from tests.faults.conftest import Observe
from tests.workflows.waiting import until

CHEAP, DEAR = ("2", "4"), "64"
"""vCPUs of the types that EC2 refuses, and of those that it sells."""
ONLY = [{"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": [*CHEAP, DEAR]}]
MARKET_IS_BACK = 300.0
"""Bounds the wait for the end of the dear node. Plans avoid for three minutes what EC2 refused."""
CONSOLIDATES = {"spec": {"disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1s"}}}
WAITS = {"metadata": {"annotations": {labels.SHORTAGE_POLICY: "Wait"}}}


@pytest.fixture
def shortage(sandbox: Sandbox, ec2: Ec2Admin) -> Iterator[None]:
    """EC2 sells no cheap type on demand, until `clear_capacity`."""
    aws: Any = sandbox.aws("ec2")
    filters = [{"Name": "vcpu-info.default-vcpus", "Values": [*CHEAP]}]
    for page in aws.get_paginator("describe_instance_types").paginate(Filters=filters):
        for kind in page["InstanceTypes"]:
            ec2.capacity(0, type=kind["InstanceType"], capacity_type=labels.ON_DEMAND)
    yield
    ec2.clear_capacity()


async def failed_scheduling(pool: Pool, words: str) -> bool:
    """Whether an event of a pod has these words."""
    events = await pool.kube.list(EVENTS, field_selector="reason=FailedScheduling")
    own = [event["message"] for event in events if event["involvedObject"]["name"].startswith(f"{pool.name}-")]
    return any(words in message for message in own)


def mark(claim: Object) -> float:
    """The price of the nodes that EC2 refused; 0 if the node was not bought in a shortage."""
    return float(claim["metadata"]["annotations"].get(labels.BOUGHT_IN_SHORTAGE, 0))


def price(claim: Object) -> float:
    """What the node costs on demand."""
    price = read_prices().price(labels.ON_DEMAND, claim["metadata"]["labels"][labels.INSTANCE_TYPE])
    assert price is not None
    return price


async def on_usual_node(pool: Pool, usual: float) -> bool:
    """Whether the pool has settled on one node without a mark, which costs no more than twice the usual price."""
    (claim,) = await pool.settled(1)
    return price(claim) <= 2 * usual and not mark(claim)


@pytest.mark.usefixtures("shortage")
async def test_wsh01_what_a_shortage_says_and_which_nodes_it_leaves(
    make_pool: MakePool, observe: Observe, ec2: Ec2Admin, tenon: Run
) -> None:
    """Pods and NodePool say what EC2 lacks. A dear node has a mark, and leaves when the cheap types are back.

    The pods of the other NodePool wait for the cheap types, and never get a dear node.
    """
    buys = await make_pool(requirements=ONLY, capacity_types=[labels.ON_DEMAND], consolidate_after="Never")
    waits = await make_pool(requirements=ONLY, capacity_types=[labels.ON_DEMAND])
    await waits.kube.patch(NODEPOOLS, waits.name, WAITS)
    await buys.kube.patch(NODEPOOLS, buys.name, {"metadata": {"labels": {KEY: buys.name}}})  # to record it by
    async with (
        observe(buys, waits) as observations,
        recorded(buys.kube, f"{KEY}={buys.name}", (NODEPOOLS,)) as moments,
    ):
        await buys.deploy(1)
        await until(lambda: failed_scheduling(buys, "EC2 has no on-demand capacity for"))
        uid = (await buys.read())["metadata"]["uid"]

        async def pool_said_so() -> bool:
            """It may have got its node by now, and says that EC2 has capacity again."""
            results = [condition(state, CAPACITY_AVAILABLE) for state in moments.states(uid)]
            return any(
                result.get("status") == "False" and "NodeClaims found no capacity" in result["message"]
                for result in results
            )

        await until(pool_said_so)
        await buys.running(1)
        (dear,) = await buys.settled(1)
        usual = mark(dear)
        assert 0 < 2 * usual < price(dear)

        await waits.deploy(1)
        await until(lambda: failed_scheduling(waits, "the pod waits because "))

        async def listed() -> bool:
            """The provisioner knows the answer of a plan a moment after the pods' events."""
            rows = [row for row in await blocked_rows(tenon) or () if row["nodePool"] == waits.name]
            return any("waits for a cheaper node" in str(row.get("why")) for row in rows)

        await until(listed)

        observations.may_move(buys)
        await buys.kube.patch(NODEPOOLS, buys.name, CONSOLIDATES)
        ec2.clear_capacity()
        await buys.gone(dear["metadata"]["name"], within=MARKET_IS_BACK)
        for pool in (buys, waits):
            await pool.running(1)
        # A type is avoided for three minutes from its own refusal: those that are back first may not be the cheapest.
        await until(partial(on_usual_node, buys, usual), within=MARKET_IS_BACK)
        assert await on_usual_node(waits, usual)
        assert len(waits.instances()) == 1
        for pool in (buys, waits):
            await pool.scale(0)
