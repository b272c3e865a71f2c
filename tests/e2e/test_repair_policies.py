"""Repair policies that users state, on a cluster with a worker: NodeRepairPolicy objects and conditions of Nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from temporalio.client import Client

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS, NODEREPAIRPOLICIES
from sandbox.cluster import Sandbox
from tests.e2e.conftest import MakePool
from tests.e2e.lives import life_of
from tests.e2e.pools import SMALL, condition
from tests.e2e.repair_policies import DEADLOCK, Policies, deadlock, stated
from tests.e2e.worker import Worker
from tests.workflows.waiting import until


@pytest_asyncio.fixture(loop_scope="session")
async def policies(kube: Kube, sandbox: Sandbox) -> AsyncIterator[Policies]:
    async with stated(kube, sandbox) as policies:
        yield policies


async def test_a_condition_of_node_problem_detector_is_a_fault_if_a_policy_says_so(
    make_pool: MakePool, worker: Worker, sandbox: Sandbox, policies: Policies, kube: Kube, client: Client
) -> None:
    """Two NodePools have the same fault; the policy selects one of them."""
    selected = await make_pool(requirements=SMALL, consolidate_after="Never")
    other = await make_pool(requirements=SMALL, consolidate_after="Never")
    name = await policies.state(
        selected.name, {**DEADLOCK, "reasonRegex": "Docker(Hung|Dead)", "terminationGracePeriod": "5m"}
    )
    claims: dict[str, str] = {}
    for pool in (selected, other):
        await pool.deploy(1)
        (claim,) = await pool.settled(1)
        claims[pool.name] = claim["metadata"]["name"]
        deadlock(sandbox, claim["status"]["nodeName"])
    await selected.gone(claims[selected.name])
    life = await life_of(client, sandbox, claims[selected.name])
    assert life.reason == "Unhealthy"
    assert life.detail == f"KernelDeadlock is True (DockerHung): policy {name} takes ReplaceNode after 2s"
    await selected.running(1)
    assert await kube.get(NODECLAIMS, claims[other.name]) is not None

    async def is_counted() -> bool:
        status = await policies.status(name)
        return (status.get("nodePools"), status.get("matchingNodes")) == (1, 0)

    await until(is_counted)
    policy = await kube.get(NODEREPAIRPOLICIES, name)
    assert policy is not None
    assert condition(policy, "Ready")["status"] == "True"

    async def counts_the_repair() -> bool:
        outcomes = (await policies.status(name)).get("outcomes")
        return outcomes == [{"action": "ReplaceNode", "outcome": "succeeded", "count": 1}]

    await until(counts_the_repair)
    (repair,) = (await policies.status(name))["recent"]
    assert (repair["nodeClaim"], repair["fault"]) == (claims[selected.name], "KernelDeadlock is True (DockerHung)")
    listed = sandbox.kubectl("get", "noderepairpolicies")
    assert "built-in" in listed
    assert worker.logged("The worker selected a repair policy", condition="KernelDeadlock")


async def test_a_policy_without_faults_turns_repair_off_for_its_nodepools(
    make_pool: MakePool, sandbox: Sandbox, policies: Policies, kube: Kube
) -> None:
    """The API server says what is wrong with a policy that it refuses."""
    pool = await make_pool(requirements=SMALL, consolidate_after="Never")
    name = await policies.state(pool.name)

    async def holds() -> bool:
        return (await policies.status(name)).get("nodePools") == 1

    await until(holds)
    built_in = await kube.get(NODEREPAIRPOLICIES, "built-in")
    assert built_in is not None
    conditions = {fault["conditionType"] for fault in built_in["spec"]["faults"]}
    assert {"Ready", "AcceleratedHardwareReady", "StorageReady"} <= conditions
    sandbox.kubectl("patch", "noderepairpolicy", "built-in", "--type=merge", "--patch", '{"spec": {"weight": 5}}')

    async def is_restored() -> bool:
        policy = await kube.get(NODEREPAIRPOLICIES, "built-in")
        return policy is not None and policy["spec"] == built_in["spec"]

    await until(is_restored)
