"""Nodes of a NodePool fall silent, one after the other and then many at once, and repair stays within its limits.

An ordinary run has few nodes, because each costs a second of the machine. ``TENON_DRILL_NODES=30`` has thirty.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import AsyncIterator, Iterable

import pytest
import pytest_asyncio

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tests.e2e.conftest import MakePool
from tests.e2e.moments import Moments, recorded
from tests.e2e.pools import SMALL, Object, condition, leaving
from tests.e2e.repair_policies import Policies, stated
from tests.workflows.waiting import until

FLEET = int(os.environ.get("TENON_DRILL_NODES", "6"))
SHARE = 0.2
LIMIT = math.ceil(FLEET * SHARE)
"""How many nodes may be repaired at once, and how many may be unhealthy if any is to be repaired."""
SILENT: Object = {
    "conditionType": "Ready",
    "conditionStatus": "Unknown",
    "tolerationDuration": "5s",
    "terminationGracePeriod": "5s",
}
WITHIN = 120.0 * FLEET


@pytest_asyncio.fixture(loop_scope="session")
async def policies(kube: Kube, sandbox: Sandbox) -> AsyncIterator[Policies]:
    async with stated(kube, sandbox) as policies:
        yield policies


def is_repaired(claim: Object) -> bool:
    """Whether a command for a NodeClaim is open, or it leaves."""
    return leaving(claim) or condition(claim, "DisruptionReason").get("status") == "True"


def most_repaired(moments: Moments) -> int:
    """The most nodes that were repaired at a time. At no time were these more than their share of all nodes."""
    most = 0
    for objects in moments.replay():
        present = [
            claim
            for claim in objects["NodeClaim"].values()
            if condition(claim, "Initialized").get("status") == "True"
            and condition(claim, "InstanceTerminating").get("status") != "True"
        ]
        repaired = [claim["metadata"]["name"] for claim in present if is_repaired(claim)]
        assert len(repaired) <= math.ceil(len(present) * SHARE), f"of {len(present)} nodes, {repaired}"
        most = max(most, len(repaired))
    return most


@pytest.mark.timeout(2400)
async def test_n15_128_nodes_that_fall_silent_are_repaired_within_the_budget_until_the_breaker_stops_it(
    make_pool: MakePool, sandbox: Sandbox, policies: Policies, kube: Kube
) -> None:
    """N15-127: the breaker holds as long as more than a fifth are unhealthy, and the others are repaired then."""
    ec2 = sandbox.ec2()
    pool = await make_pool(requirements=SMALL, consolidate_after="Never", budgets=[{"nodes": "20%"}])
    await policies.state(pool.name, SILENT)
    await pool.deploy(FLEET)
    await pool.running(FLEET, within=WITHIN)
    machine_of = {
        str(claim["metadata"]["name"]): str(claim["status"]["providerID"]).rsplit("/", 1)[-1]
        for claim in await pool.settled(FLEET)
    }
    burst = LIMIT + 2  # a last report of a kubelet may still be under way, and then its Node is ready for a moment
    in_a_row, at_once = list(machine_of)[:-burst], list(machine_of)[-burst:]

    async def present(names: Iterable[str]) -> list[Object]:
        return [claim for claim in await pool.claims() if claim["metadata"]["name"] in names]

    async with recorded(kube, f"{labels.NODEPOOL}={pool.name}", (NODECLAIMS,)) as moments:
        silent: list[str] = []

        async def another_may_fall_silent() -> bool:
            return len(await present(silent)) < LIMIT

        for name in in_a_row:
            await until(another_may_fall_silent, within=WITHIN)
            silent.append(name)
            await asyncio.to_thread(ec2.silence_kubelet, machine_of[name])

        async def all_are_replaced() -> bool:
            return not await present(in_a_row)

        await until(all_are_replaced, within=WITHIN)
        await pool.running(FLEET, within=WITHIN)

        await asyncio.gather(*(asyncio.to_thread(ec2.silence_kubelet, machine_of[name]) for name in at_once))
        await pool.seen(pool.name, "NodeRepairBlocked", "More than 20%")
        assert not any(is_repaired(claim) for claim in await present(at_once))
        recovered, others = at_once[:2], at_once[2:]
        for name in recovered:
            await asyncio.to_thread(ec2.silence_kubelet, machine_of[name], silent=False)

        async def the_others_are_replaced() -> bool:
            return not await present(others)

        await until(the_others_are_replaced, within=WITHIN)
        await pool.running(FLEET, within=WITHIN)
    assert most_repaired(moments) == LIMIT
    assert [is_repaired(claim) for claim in await present(recovered)] == [False, False]
