"""An error of a GPU that stays: two reboots, then a replacement, whenever workers die meanwhile.

An ordinary run kills the worker once and restarts it once, because each kill costs half a minute. With
``TENON_DRILL_KILLS=1``, the worker is killed in every phase of the repair.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import Client

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODES
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tests.e2e.conftest import MakePool
from tests.e2e.lives import life_of
from tests.e2e.pools import SMALL, Object, Pool, condition, leaving
from tests.e2e.repair_policies import Policies, report, stated
from tests.e2e.worker import Worker
from tests.workflows.waiting import until

EVERY_PHASE = bool(os.environ.get("TENON_DRILL_KILLS"))
FAULT: Object = {
    "conditionType": "AcceleratedHardwareReady",
    "conditionStatus": "False",
    "reasonRegex": "XID(48|63)",
    "tolerationDuration": "90s" if EVERY_PHASE else "2s",
    "terminationGracePeriod": "6s",
    "steps": [{"action": "RebootNode", "limit": {"times": 2, "within": "24h"}}, {"action": "ReplaceNode"}],
}
BOOT_SECONDS = 40.0
"""How long a machine boots in the drill: longer than a worker needs to start."""


@pytest_asyncio.fixture(loop_scope="session")
async def policies(kube: Kube, sandbox: Sandbox) -> AsyncIterator[Policies]:
    async with stated(kube, sandbox) as policies:
        yield policies


def reboots_of(claim: Object) -> list[str]:
    """When the reboots of a node were requested; an empty text before the first."""
    return str(claim["metadata"]["annotations"].get(labels.REBOOTS) or "").split(",")


@dataclass
class Repaired:
    """The node with the fault, as it is seen from outside."""

    pool: Pool
    worker: Worker
    name: str
    machine: str

    async def claim(self) -> Object:
        """Its NodeClaim."""
        (claim,) = [claim for claim in await self.pool.claims() if claim["metadata"]["name"] == self.name]
        return claim

    async def node(self) -> Object:
        """Its Node."""
        node = await self.pool.kube.get(NODES, (await self.claim())["status"]["nodeName"])
        assert node is not None
        return node

    async def has(self, reason: str, reboots: int = 1) -> bool:
        """Whether condition Rebooting of the NodeClaim has this reason, and the NodeClaim has so many reboots."""
        claim = await self.claim()
        return condition(claim, "Rebooting").get("reason") == reason and len(reboots_of(claim)) == reboots

    async def has_rebooted_once(self) -> bool:
        """Whether the first reboot has ended. Soon after, the second is requested, whose time shows it too."""
        return await self.has("RebootSucceeded") or len(reboots_of(await self.claim())) == 2

    async def has_rebooted_twice(self) -> bool:
        """Whether the second reboot has ended. Its time is on the NodeClaim before the condition changes."""
        return await self.has("RebootSucceeded", 2) and await asyncio.to_thread(self.reboots) == 2

    async def is_initialized(self) -> bool:
        """Whether pods may come."""
        return bool((await self.node())["metadata"]["labels"].get(labels.INITIALIZED) == "true")

    async def boots(self) -> bool:
        """Whether EC2 reboots the machine and its kubelet is silent."""
        return await self.has("RebootIssued") and condition(await self.node(), "Ready").get("status") != "True"

    async def waits_for_its_replacement(self) -> bool:
        """Whether a new node was bought and this one stays so long."""
        claims = await self.pool.claims()
        assert not any(leaving(claim) for claim in claims), await self.pool.history()
        return len(claims) == 2

    async def drains(self) -> bool:
        """Whether it leaves."""
        return leaving(await self.claim())

    async def killed_when(
        self, phase: Callable[[], Awaitable[bool]], *, is_ordinary: bool = False, then_hold: Object | None = None
    ) -> None:
        """Wait for a phase and kill the worker in it, in an ordinary run only if asked; then start it again.

        ``then_hold``: how EC2 holds the next call that reboots an instance.
        """
        if not (EVERY_PHASE or is_ordinary):
            return
        await until(phase, within=300.0)
        await asyncio.to_thread(self.worker.crash)
        ec2 = self.pool.sandbox.ec2()
        await asyncio.to_thread(ec2.release)
        if then_hold is not None:
            ec2.hold("RebootInstances", **then_hold)
        await asyncio.to_thread(self.worker.start)

    def calls(self) -> int:
        """How often EC2 was asked to reboot the machine."""
        return sum(self.machine in str(call) for call in self.pool.sandbox.ec2().calls("RebootInstances"))

    def reboots(self) -> int:
        """How often EC2 rebooted it, as its console says."""
        answer: Any = self.pool.sandbox.aws("ec2").get_console_output(InstanceId=self.machine, Latest=True)
        return str(answer.get("Output", "")).count("The machine reboots.")


@pytest.mark.timeout(1200)
async def test_n15_154_a_fault_that_two_reboots_do_not_clear_is_replaced_although_workers_die(
    make_pool: MakePool, worker: Worker, sandbox: Sandbox, policies: Policies, kube: Kube, client: Client
) -> None:
    """N15-138, N15-159: EC2 reboots the machine twice, the node keeps both in mind, and one node replaces it."""
    ec2 = sandbox.ec2()
    pool = await make_pool(requirements=SMALL, consolidate_after="Never")
    policy = await policies.state(pool.name, FAULT)
    await pool.deploy(1)
    await pool.running(1)
    (claim,) = await pool.settled(1)
    machine = claim["status"]["providerID"].rsplit("/", 1)[-1]
    sick = Repaired(pool, worker, claim["metadata"]["name"], machine)
    await pool.protect("web")  # each drain takes as long as it may, and the pod rides through the reboots
    if EVERY_PHASE:
        ec2.boot(delay=BOOT_SECONDS)
    report(sandbox, claim["status"]["nodeName"], "AcceleratedHardwareReady", "False", "NvidiaXID48Error")

    async def ec2_is_asked() -> bool:
        return await asyncio.to_thread(ec2.held) > 0

    try:
        await sick.killed_when(lambda: sick.has("RebootRequested"), then_hold={"after_effect": False})
        await sick.killed_when(ec2_is_asked)  # EC2 never hears of this call
        await sick.killed_when(lambda: sick.has("RebootIssued"), is_ordinary=True)
        await sick.killed_when(sick.boots)
        await sick.killed_when(lambda: sick.has("RebootSucceeded"))
        await sick.killed_when(sick.is_initialized)
        await until(sick.has_rebooted_once, within=300.0)
        if EVERY_PHASE:
            ec2.hold("RebootInstances", after_effect=True)
        stopped = await asyncio.to_thread(worker.stop)
        await asyncio.to_thread(worker.start)
        assert stopped == 0, f"see {worker.log}"
        await sick.killed_when(ec2_is_asked)
        await until(sick.has_rebooted_twice, within=300.0)
        ec2.clear_boot()
        await sick.killed_when(sick.waits_for_its_replacement)
        await sick.killed_when(sick.drains)
    finally:
        ec2.release()
        ec2.clear_boot()
    await pool.gone(sick.name, within=300.0)
    assert sick.calls() == (3 if EVERY_PHASE else 2), "the call of a worker that died before it is the third"
    assert len(pool.instances()) == 2
    life = await life_of(client, sandbox, sick.name)
    assert life.reason == "Unhealthy"
    assert "after as many reboots as the policy allows" in life.detail
    await pool.running(1)

    async def counts_all() -> bool:
        outcomes = (await policies.status(policy)).get("outcomes") or []
        return {(entry["action"], entry["outcome"]): entry["count"] for entry in outcomes} == {
            ("RebootNode", "succeeded"): 2,
            ("ReplaceNode", "succeeded"): 1,
        }

    await until(counts_all)
