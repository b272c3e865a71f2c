"""NP-23, SCH-092, WSH-36: limits hold over batches, however long EC2 takes to say what was launched."""

from __future__ import annotations

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODEPOOLS
from sandbox.ec2.client import Ec2Admin
from tenon.apis import labels
from tests.e2e.conftest import MakePool
from tests.e2e.pools import SMALL
from tests.workflows.waiting import until


async def test_a_second_batch_counts_what_the_first_may_become(make_pool: MakePool, kube: Kube, ec2: Ec2Admin) -> None:
    """Two nodes of 2 CPU are on order for pods that request half of it; a third one would break the limit of 5."""
    pool = await make_pool(requirements=SMALL, consolidate_after="Never")
    await kube.patch(NODEPOOLS, pool.name, {"spec": {"limits": {"cpu": "5"}}})
    ec2.hold("CreateFleet", count=None)  # also what a client repeats that waited for half a minute
    await pool.deploy(2)

    async def both_on_order() -> bool:
        return len(await pool.claims()) == 2

    await until(both_on_order)
    await pool.pod("third")
    text = await pool.seen(f"{pool.name}-third", "FailedScheduling", "limit")
    assert pool.name in text
    assert len(await pool.claims()) == 2
    ec2.release()
    await pool.running(2, app="web")
    assert len(await pool.claims()) == 2

    async def counted() -> bool:
        return bool((await pool.read())["status"]["resources"].get("cpu") == "4")

    await until(counted)
    await kube.patch(NODEPOOLS, pool.name, {"spec": {"limits": {"cpu": "6"}}})
    await pool.running(1, app="third")


async def test_wsh36_a_second_batch_counts_what_the_first_may_cost(
    make_pool: MakePool, kube: Kube, ec2: Ec2Admin
) -> None:
    """Two nodes are on order, which may cost all of the limit; a third one waits until it is known what they cost."""
    pool = await make_pool(requirements=SMALL, consolidate_after="Never")
    await _limit_cost(kube, pool.name, "0.01")  # lets nothing through, so that both pods are in one batch
    ec2.hold("CreateFleet", count=None)  # also what a client repeats that waited for half a minute
    await pool.deploy(2)

    async def both_wait() -> bool:
        events = [await pool.events(pod["metadata"]["name"], "FailedScheduling") for pod in await pool.pods("web")]
        return [any(labels.MAX_HOURLY_COST in item["message"] for item in of_pod) for of_pod in events] == [True, True]

    await until(both_wait)
    await _limit_cost(kube, pool.name, "0.30")

    async def both_on_order() -> bool:
        return len(await pool.claims()) == 2

    await until(both_on_order)
    await pool.pod("third")
    text = await pool.seen(f"{pool.name}-third", "FailedScheduling", labels.MAX_HOURLY_COST)
    assert f"its limit leaves no room for another node ({labels.MAX_HOURLY_COST} $0.30); $" in text, (
        "it may say before what EC2 has refused in other tests"
    )
    ec2.release()
    await pool.running(1, app="third")  # the first two cost less than they might have
    prices = [float(claim["metadata"]["annotations"][labels.LAUNCH_PRICE]) for claim in await pool.claims()]
    assert len(prices) == 3
    assert sum(prices) <= 0.30
    await _limit_cost(kube, pool.name, "forty")
    await pool.seen(pool.name, "NodePoolValidationFailed", "'forty' is not an amount: write dollars an hour")
    await pool.pod("fourth")
    await pool.seen(f"{pool.name}-fourth", "FailedScheduling", "'forty' is not an amount")
    await _limit_cost(kube, pool.name, "40")
    await pool.running(1, app="fourth")


async def _limit_cost(kube: Kube, pool: str, dollars: str) -> None:
    await kube.patch(NODEPOOLS, pool, {"metadata": {"annotations": {labels.MAX_HOURLY_COST: dollars}}})
