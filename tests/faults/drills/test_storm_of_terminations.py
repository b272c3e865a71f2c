"""S6: a hundred nodes that are all deleted at once, while other nodes launch."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from temporalio.client import Client

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import LEASES, NODECLAIMS
from sandbox.cluster import Sandbox
from sandbox.ec2.client import Ec2Admin
from tests.e2e.conftest import MakePool
from tests.e2e.pools import SMALL, Pool
from tests.workflows.waiting import until
from worker.runtime.election.lease import LEASE_NAME
from workflows import names

COUNT = 100
NEW = 5
"""Nodes that launch while the others leave."""
MAX_POLLS = 3
WITHIN = 400.0
"""Bounds what would otherwise hang, on a machine that is busy with other tests too."""


@pytest.fixture
def slow_ends(ec2: Ec2Admin) -> Iterator[None]:
    """Instances that take so long to terminate that Tenon looks at them several times."""
    ec2.lifecycle(pending=0.2, shutting_down=3.0)
    yield
    ec2.lifecycle(pending=0.2, shutting_down=0.2)


async def lead(kube: Kube) -> tuple[Any, Any]:
    """Who leads, and how often the lead has changed."""
    lease = await kube.get(LEASES, LEASE_NAME, namespace="tenon")
    assert lease is not None
    return lease["spec"]["holderIdentity"], lease["spec"].get("leaseTransitions")


def most_in_a_second(times: Sequence[float]) -> int:
    """The most calls that arrived within any one second."""
    ordered = sorted(times)
    return max(bisect_left(ordered, at + 1) - place for place, at in enumerate(ordered))


async def endings(client: Client, cluster: str, pool: Pool) -> dict[str, Counter[str]]:
    """How the runs of each workflow of a pool's nodes ended."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    query = f'WorkflowId STARTS_WITH "{names.nodeclaim_id(cluster, pool.name)}"'
    async for run in client.list_workflows(query):
        assert run.status is not None
        counts[run.id][run.status.name] += 1
    return counts


@pytest.mark.alone
async def test_s6_a_hundred_terminations_at_once_keep_the_lease_and_ec2s_limits(
    make_pool: MakePool, kube: Kube, client: Client, sandbox: Sandbox, ec2: Ec2Admin, slow_ends: None
) -> None:
    """H7: launches and terminations together describe instances at most three times in any second.

    Alone, because an API server that other tests keep off the cores for ten seconds costs any leader its Lease.
    """
    pool: Pool = await make_pool(requirements=SMALL, consolidate_after="Never")
    leader = await lead(kube)
    refused = ec2.buckets()["refused"]
    ec2.clear_calls()
    await asyncio.gather(*(pool.pod(f"p{number}") for number in range(COUNT)))
    await pool.running(COUNT, within=WITHIN)
    leaving = {
        claim["metadata"]["name"]: claim["status"]["providerID"].rsplit("/")[-1] for claim in await pool.claims()
    }
    assert len(leaving) == COUNT

    await asyncio.gather(pool.deploy(NEW), *(kube.delete(NODECLAIMS, name) for name in leaving))

    async def all_gone() -> bool:
        if leaving.keys() & {claim["metadata"]["name"] for claim in await pool.claims()}:
            return False
        states = {instance["id"]: instance["state"] for instance in await asyncio.to_thread(ec2.instances)}
        return all(states[instance] == "terminated" for instance in leaving.values())

    await until(all_gone, within=WITHIN)
    await pool.running(NEW, app="web", within=WITHIN)
    polls = [call["time"] for call in ec2.calls("DescribeInstances")]
    assert most_in_a_second(polls) <= MAX_POLLS
    assert ec2.buckets()["refused"] == refused
    assert await lead(kube) == leader

    mine = {names.nodeclaim_id(sandbox.cluster_name, name) for name in leaving}
    ends: dict[str, dict[str, int]] = {}

    async def all_recorded() -> bool:
        ends.update({item: {} for item in mine})
        for key, runs in (await endings(client, sandbox.cluster_name, pool)).items():
            if key in mine:
                ends[key] = {status: count for status, count in runs.items() if status != "CONTINUED_AS_NEW"}
        return all(runs and "RUNNING" not in runs for runs in ends.values())

    await until(all_recorded)
    assert ends == {item: {"COMPLETED": 1} for item in mine}
