"""NP-23, SCH-092: what a NodePool may take holds over batches, however long EC2 takes to say what was launched."""

from __future__ import annotations

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODEPOOLS
from sandbox.ec2.client import Ec2Admin
from tests.e2e.conftest import MakePool
from tests.e2e.pools import SMALL
from tests.workflows.waiting import until


async def test_a_second_batch_counts_what_the_first_may_become(make_pool: MakePool, kube: Kube, ec2: Ec2Admin) -> None:
    """Two nodes of 2 CPU are on order for pods that request half of it; a third one would break the limit of 5."""
    pool = await make_pool(requirements=SMALL, consolidate_after="Never")
    await kube.patch(NODEPOOLS, pool.name, {"spec": {"limits": {"cpu": "5"}}})
    ec2.hold("CreateFleet")
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
