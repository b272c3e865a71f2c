"""Repair policies that users state, on a cluster with a worker: NodeRepairPolicy objects and conditions of Nodes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import Client

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS, NODEREPAIRPOLICIES
from sandbox.cluster import Sandbox
from tests.e2e.conftest import MakePool, MakeWorker
from tests.e2e.lives import life_of
from tests.e2e.pools import SMALL, condition
from tests.e2e.worker import Worker
from tests.workflows.waiting import until

Object = dict[str, Any]


@pytest.fixture(scope="module")
def repairing(worker: Worker, sandbox: Sandbox, make_worker: MakeWorker) -> Iterator[Worker]:
    """A worker with node repair, in place of the usual one."""
    assert worker.stop() == 0
    other = make_worker(sandbox, "e2e-repair-policies", FEATURE_GATES="NodeRepair=true")
    other.start()
    yield other
    stopped = other.stop()
    worker.start()
    assert stopped == 0, f"see {other.log}"


class Policies:
    """NodeRepairPolicies for single NodePools."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self.names: list[str] = []

    async def state(self, pool: str, *faults: Object, **spec: Any) -> str:
        """State the policy of a NodePool."""
        selector = {"matchLabels": {"example.com/pool": pool}}
        body = {"metadata": {"name": pool}, "spec": {"nodePoolSelector": selector, "faults": list(faults), **spec}}
        await self._kube.create(NODEREPAIRPOLICIES, body)
        self.names.append(pool)
        return pool

    async def status(self, name: str) -> Object:
        """The status that the worker has written so far."""
        policy = await self._kube.get(NODEREPAIRPOLICIES, name)
        assert policy is not None
        return dict(policy.get("status") or {})


@pytest_asyncio.fixture(loop_scope="session")
async def policies(kube: Kube) -> AsyncIterator[Policies]:
    policies = Policies(kube)
    yield policies
    for name in policies.names:
        await kube.delete(NODEREPAIRPOLICIES, name)


def deadlock(sandbox: Sandbox, node: str, status: str = "True") -> None:
    """Report a deadlock of the kernel, as node-problem-detector does."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    reported = {
        "type": "KernelDeadlock",
        "status": status,
        "reason": "DockerHung",
        "message": "task docker:20744 blocked",
    }
    patch = json.dumps({"status": {"conditions": [reported | {"lastTransitionTime": now}]}})
    sandbox.kubectl("patch", "node", node, "--subresource=status", "--patch", patch)


async def test_a_condition_of_node_problem_detector_is_a_fault_if_a_policy_says_so(
    make_pool: MakePool, repairing: Worker, sandbox: Sandbox, policies: Policies, kube: Kube, client: Client
) -> None:
    """Two NodePools have the same fault; the policy selects one of them."""
    selected = await make_pool(requirements=SMALL, consolidate_after="Never")
    other = await make_pool(requirements=SMALL, consolidate_after="Never")
    sandbox.kubectl("label", "nodepool", selected.name, f"example.com/pool={selected.name}")
    fault = {
        "conditionType": "KernelDeadlock",
        "conditionStatus": "True",
        "reasonRegex": "Docker(Hung|Dead)",
        "tolerationDuration": "2s",
        "terminationGracePeriod": "5m",
    }
    name = await policies.state(selected.name, fault)
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
    assert repairing.logged("The worker selected a repair policy", condition="KernelDeadlock")


async def test_a_policy_without_faults_turns_repair_off_for_its_nodepools(
    make_pool: MakePool, repairing: Worker, sandbox: Sandbox, policies: Policies, kube: Kube
) -> None:
    """The API server says what is wrong with a policy that it refuses."""
    del repairing
    pool = await make_pool(requirements=SMALL, consolidate_after="Never")
    sandbox.kubectl("label", "nodepool", pool.name, f"example.com/pool={pool.name}")
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


async def test_n15_154_a_fault_that_two_reboots_do_not_clear_is_replaced_although_workers_die(
    make_pool: MakePool, repairing: Worker, sandbox: Sandbox, policies: Policies, kube: Kube, client: Client
) -> None:
    """N15-138: an error of a GPU that stays. The worker is killed during the first reboot, and restarted after it."""
    pool = await make_pool(requirements=SMALL, consolidate_after="Never")
    sandbox.kubectl("label", "nodepool", pool.name, f"example.com/pool={pool.name}")
    fault = {
        "conditionType": "AcceleratedHardwareReady",
        "conditionStatus": "False",
        "reasonRegex": "XID(48|63)",
        "tolerationDuration": "2s",
        "terminationGracePeriod": "6s",
        "steps": [{"action": "RebootNode", "limit": {"times": 2, "within": "24h"}}, {"action": "ReplaceNode"}],
    }
    name = await policies.state(pool.name, fault)
    await pool.deploy(1)
    await pool.running(1)
    (claim,) = await pool.settled(1)
    machine = claim["status"]["providerID"].rsplit("/", 1)[-1]
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    broken = {"type": "AcceleratedHardwareReady", "status": "False", "reason": "NvidiaXID48Error"}
    patch = json.dumps({"status": {"conditions": [broken | {"lastTransitionTime": now, "message": "double bit ECC"}]}})
    sandbox.kubectl("patch", "node", claim["status"]["nodeName"], "--subresource=status", "--patch", patch)

    async def reboot_is(reason: str) -> bool:
        present = await kube.get(NODECLAIMS, claim["metadata"]["name"])
        return present is not None and condition(present, "Rebooting").get("reason") == reason

    await until(lambda: reboot_is("RebootIssued"), within=180.0)
    await asyncio.to_thread(repairing.crash)
    await asyncio.to_thread(repairing.start)
    await until(lambda: reboot_is("RebootSucceeded"), within=180.0)
    assert await asyncio.to_thread(repairing.stop) == 0
    await asyncio.to_thread(repairing.start)
    await pool.gone(claim["metadata"]["name"], within=300.0)
    assert sum(machine in str(call) for call in sandbox.ec2().calls("RebootInstances")) == 2
    life = await life_of(client, sandbox, claim["metadata"]["name"])
    assert life.reason == "Unhealthy"
    assert "after as many reboots as the policy allows" in life.detail
    await pool.running(1)

    async def counts_all() -> bool:
        outcomes = (await policies.status(name)).get("outcomes") or []
        return {(entry["action"], entry["outcome"]): entry["count"] for entry in outcomes} == {
            ("RebootNode", "succeeded"): 2,
            ("ReplaceNode", "succeeded"): 1,
        }

    await until(counts_all)
