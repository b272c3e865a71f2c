"""A node reboots in place: seen from outside, by an operator's command, and with workers that die meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS, NODES
from sandbox.cluster import Sandbox
from tenon.kube.conditions import condition
from tests.e2e.conftest import MakePool, Run
from tests.e2e.pools import SMALL, Pool
from tests.e2e.worker import Worker
from tests.workflows.waiting import until

FENCE = "karpenter.sh/rebooting"


def boot_id(node: Any) -> str:
    return str(node["status"]["nodeInfo"]["bootID"])


def restarts(pod: Any) -> int:
    return int(pod["status"]["containerStatuses"][0]["restartCount"])


def reboots(sandbox: Sandbox, instance: str) -> int:
    return sum(instance in str(call) for call in sandbox.ec2().calls("RebootInstances"))


async def node_of(kube: Kube, claim: Any) -> Any:
    node = await kube.get(NODES, claim["status"]["nodeName"])
    assert node is not None
    return node


async def reboot_reason(pool: Pool) -> str:
    return str(condition(await pool.claim(), "Rebooting").get("reason") or "")


async def test_n15_151_a_node_reboots_in_place_and_pods_that_cannot_be_evicted_ride_through(
    make_pool: MakePool, worker: Worker, sandbox: Sandbox, kube: Kube, tenon: Run
) -> None:
    """N15-155 to N15-162: the instance and its pod stay, the boot is another one, EC2 is asked once."""
    pool = await make_pool(requirements=SMALL, consolidate_after="Never")
    await pool.deploy(1)
    (pod,) = await pool.running(1)
    (claim,) = await pool.settled(1)
    await pool.protect("web")
    before, name = await node_of(kube, claim), claim["metadata"]["name"]
    done = await asyncio.to_thread(tenon, "node", "reboot", name, "--reason", "a test", "--grace-period", "6s")
    assert done.returncode == 0, done.stderr
    assert "1 pod left, which ride through the reboot" in done.stdout

    async def restarted() -> bool:
        """The kubelet reports its containers after its Node."""
        return [restarts(item) for item in await pool.pods()] == [restarts(pod) + 1]

    await until(restarted)
    after, (rode,) = await node_of(kube, claim), await pool.running(1)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert boot_id(after) != boot_id(before)
    assert rode["metadata"]["uid"] == pod["metadata"]["uid"]
    assert restarts(rode) == restarts(pod) + 1
    assert not [taint for taint in after["spec"].get("taints") or () if taint["key"] == FENCE]
    instance = claim["status"]["providerID"].rsplit("/", 1)[-1]
    assert (reboots(sandbox, instance), len(pool.instances())) == (1, 1)
    await pool.seen(name, "RebootObserved", "has booted again")
    assert await reboot_reason(pool) == "RebootSucceeded"

    async def initialized() -> bool:
        node = await node_of(kube, claim)
        return bool(node["metadata"]["labels"].get("karpenter.sh/initialized") == "true")

    await until(initialized)
    assert worker.metric("karpenter_nodes_reboots_total", result="succeeded") >= 1


@pytest.mark.parametrize("phase", ["drains", "asks EC2"])
async def test_n15_159_a_worker_that_dies_in_any_phase_reboots_the_machine_once(
    make_pool: MakePool, worker: Worker, sandbox: Sandbox, kube: Kube, tenon: Run, phase: str
) -> None:
    """A worker that dies after EC2's answer: test_reboots_for_repair.py."""
    pool = await make_pool(requirements=SMALL, consolidate_after="Never")
    await pool.deploy(1)
    await pool.running(1)
    (claim,) = await pool.settled(1)
    await pool.protect("web")
    before, name, ec2 = await node_of(kube, claim), claim["metadata"]["name"], sandbox.ec2()
    if phase == "asks EC2":
        ec2.hold("RebootInstances", after_effect=True)
    grace = "15s" if phase == "drains" else "0s"
    begun = await asyncio.to_thread(
        tenon, "node", "reboot", name, "--reason", "a test", "--grace-period", grace, "--no-wait"
    )
    assert begun.returncode == 0, begun.stderr

    async def reached() -> bool:
        if phase == "asks EC2":
            return await asyncio.to_thread(ec2.held) > 0
        return await reboot_reason(pool) == "RebootRequested"

    try:
        await until(reached)
        await asyncio.to_thread(worker.crash)
    finally:
        await asyncio.to_thread(ec2.release)
        await asyncio.to_thread(worker.start)

    async def ended() -> bool:
        return await reboot_reason(pool) == "RebootSucceeded"

    await until(ended, within=180)
    assert boot_id(await node_of(kube, claim)) != boot_id(before)
    assert reboots(sandbox, claim["status"]["providerID"].rsplit("/", 1)[-1]) == 1
    assert (await kube.get(NODECLAIMS, name) or {})["metadata"]["uid"] == claim["metadata"]["uid"]


async def test_nodes_of_a_nodepool_reboot_at_once_and_others_stay(
    make_pool: MakePool, sandbox: Sandbox, kube: Kube, tenon: Run
) -> None:
    """`tenon node reboot --pool --max`: a dry run reboots nothing, and the oldest nodes are taken."""
    pool = await make_pool(requirements=SMALL, consolidate_after="Never")
    for name in ("one", "two", "three"):
        await pool.pod(name)
    await pool.running(3)
    claims = {claim["metadata"]["name"]: claim for claim in await pool.settled(3)}
    boots = {name: boot_id(await node_of(kube, claim)) for name, claim in claims.items()}
    arguments = ("node", "reboot", "--pool", pool.name, "--max", "2", "--grace-period", "0s")
    planned = await asyncio.to_thread(tenon, *arguments, "--dry-run")
    assert planned.returncode == 0, planned.stderr
    assert planned.stdout.startswith("would reboot 2 nodes (")
    assert not any(reboots(sandbox, claim["status"]["providerID"].rsplit("/", 1)[-1]) for claim in claims.values())
    done = await asyncio.to_thread(tenon, *arguments, "--reason", "a test")
    assert done.returncode == 0, done.stderr
    rebooted = {name for name, claim in claims.items() if boot_id(await node_of(kube, claim)) != boots[name]}
    assert len(rebooted) == 2
    for name in rebooted:
        node = claims[name]["status"]["nodeName"]
        assert node in planned.stdout
        assert f"{node}: rebooted" in done.stdout
