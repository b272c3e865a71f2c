"""A worker that dies while it launches a group of equal NodeClaims by one request."""

from __future__ import annotations

import asyncio

import pytest

from sandbox.ec2.client import Ec2Admin
from tenon.apis import labels
from tests.e2e.conftest import MakePool
from tests.e2e.pools import SMALL, Pool
from tests.e2e.worker_process import WorkerProcess
from tests.faults.conftest import Observe
from tests.workflows.waiting import until

SIZE = 5


def requests(ec2: Ec2Admin, pool: Pool) -> list[str]:
    """How many instances each fleet request asked for that was sent for a pool. Its EC2NodeClass sends dry runs."""
    requests = "TargetCapacitySpecification.TotalTargetCapacity"
    calls = [call["parameters"] for call in ec2.calls("CreateFleet")]
    return [call[requests] for call in calls if pool.name in call.values() and "DryRun" not in call]


@pytest.mark.parametrize("after_effect", [True, False], ids=["after-the-effect", "before-it-arrives"])
async def test_aws030_a_group_whose_worker_dies_has_one_instance_for_each_claim(
    make_pool: MakePool, observe: Observe, ec2: Ec2Admin, worker: WorkerProcess, *, after_effect: bool
) -> None:
    """Whether EC2 had carried the request out or not: each claim gets an instance of its own, and none is bought
    twice."""
    pool = await make_pool(requirements=SMALL)
    async with observe(pool) as observations:
        ec2.hold("CreateFleet", after_effect=after_effect)
        await pool.deploy(SIZE)

        async def held() -> bool:
            return await asyncio.to_thread(ec2.held) == 1

        await until(held)
        assert requests(ec2, pool) in ([], [str(SIZE)])
        await asyncio.to_thread(worker.kill, "io")
        ec2.release()
        await asyncio.to_thread(worker.start)
        await pool.running(SIZE)
        await observations.look()
        assert observations.bought(pool) == SIZE
        claims = await pool.claims()
        assert len({claim["status"]["providerID"] for claim in claims}) == SIZE
        assert {claim["metadata"]["annotations"][labels.LAUNCH_GROUP].rpartition("/")[2] for claim in claims} == {"5"}
        assert set(requests(ec2, pool)) == {str(SIZE)}
        await pool.scale(0)
