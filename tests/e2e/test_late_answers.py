"""EC2 as late as AWS is: what was just created is not seen for ten seconds (AWS-014, AWS-049)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from temporalio.client import Client

from activities.kubernetes.resources import NODECLAIMS
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tests.e2e.conftest import MakePool
from tests.e2e.pools import SMALL, condition
from tests.faults.sweeping import sweep
from tests.workflows.waiting import until

SECONDS = 10.0


@pytest.fixture(autouse=True)
def late(sandbox: Sandbox) -> Iterator[None]:
    """Everything new is late."""
    ec2 = sandbox.ec2()
    ec2.consistency(profile=SECONDS, instance=SECONDS, tags=SECONDS, chance=1.0, seed=1)
    yield
    ec2.usual_consistency()


async def test_aws014_aws049_pods_run_on_one_instance_each_although_all_is_seen_late(
    make_pool: MakePool, sandbox: Sandbox, client: Client
) -> None:
    """A new class with a new instance profile: no launch is refused, nothing is bought twice, and the instances get all
    their tags. A Node of the sandbox may join before EC2 shows its instance, and then a sweep tags it.
    """
    pool = await make_pool(requirements=SMALL)
    await pool.deploy(3)
    await pool.running(3)
    claims = await pool.settled(3)
    assert [claim["metadata"]["annotations"].get(labels.LAUNCH_ATTEMPT) for claim in claims] == [None] * 3
    names = {claim["metadata"]["name"] for claim in claims}

    async def tagged() -> bool:
        await sweep(client, sandbox.cluster_name)
        return {instance["tags"].get(labels.TAG_NODECLAIM) for instance in pool.instances()} == names

    await until(tagged)
    assert len(pool.instances()) == 3


async def test_a_node_that_is_deleted_as_it_starts_leaves_no_instance(make_pool: MakePool) -> None:
    """Its instance may not be seen yet. It ends all the same."""
    pool = await make_pool(requirements=SMALL)
    await pool.pod("one")
    launched: list[str] = []

    async def bought() -> bool:
        launched[:] = [claim["metadata"]["name"] for claim in await pool.claims() if condition(claim, "Launched")]
        return bool(launched) and bool(pool.instances())

    await until(bought)
    await pool.delete_pod("one")  # it is gone at once, so that no second node is bought for it
    await pool.kube.delete(NODECLAIMS, launched[0])
    await pool.gone(launched[0])
    assert [
        instance["state"] for instance in pool.instances() if instance["state"] not in ("shutting-down", "terminated")
    ] == []
