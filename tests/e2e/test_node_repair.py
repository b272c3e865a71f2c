"""Unhealthy nodes are replaced, with the feature gate NodeRepair.

The worker of these tests takes faults for as old as their conditions say, although the Nodes are seconds old.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.client import Client

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS, NODEPOOLS
from sandbox.cluster import Sandbox
from tests.e2e.conftest import MakePool, MakeWorker
from tests.e2e.lives import life_of
from tests.e2e.pools import SMALL, Pool, condition, leaving
from tests.e2e.repairing_worker import instead, report
from tests.e2e.worker import Worker
from tests.workflows.waiting import until

Object = dict[str, Any]
DEADLINE = "karpenter.sh/nodeclaim-termination-timestamp"


@pytest.fixture(scope="module")
def repairing(worker: Worker, sandbox: Sandbox, make_worker: MakeWorker) -> Iterator[Worker]:
    """A worker for which Nodes are ageless, in place of the usual one."""
    yield from instead(worker, make_worker, sandbox, "e2e-repairing")


async def sick(pool: Pool, sandbox: Sandbox) -> tuple[str, Object]:
    """The NodeClaim of the only node of a NodePool, whose StorageReady is False, and the pod on it."""
    await pool.deploy(1)
    (pod,) = await pool.running(1)
    (claim,) = await pool.settled(1)
    report(sandbox, claim["status"]["nodeName"], "StorageReady", reason="IOError")
    return claim["metadata"]["name"], pod


async def begins_to_leave(pool: Pool, kube: Kube, name: str) -> Object:
    """The NodeClaim at the first moment at which it is seen to leave."""
    claims: list[Object] = []

    async def leaves() -> bool:
        claim = await kube.get(NODECLAIMS, name)
        if claim is not None and leaving(claim):
            claims.append(claim)
        return claim is None or bool(claims)

    await until(leaves, within=180.0)
    assert claims, await pool.history()
    return claims[0]


async def test_n15_131_the_replacement_is_initialized_before_an_unhealthy_node_leaves(
    make_pool: MakePool, repairing: Worker, sandbox: Sandbox, client: Client, kube: Kube
) -> None:
    """N15-115, N15-136, N15-522, N15-528: and everything says which fault it was, and which policy."""
    pool = await make_pool(requirements=SMALL, consolidate_after="Never", template={"terminationGracePeriod": "2h"})
    name, before = await sick(pool, sandbox)
    leaving_claim = await begins_to_leave(pool, kube, name)
    (new,) = [claim for claim in await pool.claims() if claim["metadata"]["name"] != name]
    deleted = datetime.fromisoformat(leaving_claim["metadata"]["deletionTimestamp"])
    initialized = condition(new, "Initialized")
    assert initialized["status"] == "True"
    assert datetime.fromisoformat(initialized["lastTransitionTime"]) <= deleted
    deadline = datetime.fromisoformat(leaving_claim["metadata"]["annotations"][DEADLINE])
    assert timedelta(minutes=9) < deadline - deleted <= timedelta(minutes=10), "10 minutes are less than 2 hours"
    await pool.gone(name)
    life = await life_of(client, sandbox, name)
    assert life.reason == "Unhealthy"
    assert life.actor.startswith("command unhealthy-")
    assert life.detail == "StorageReady is False (IOError): policy StorageReady=False takes ReplaceNode after 30m"
    assert f"leaving: Unhealthy: {life.detail} ({life.actor})" in [entry.text for entry in life.timeline]
    (after,) = await pool.running(1)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert await pool.claim_of(after) == new["metadata"]["name"]
    assert repairing.logged("The worker selected a repair policy", condition="StorageReady", action="ReplaceNode")
    ended = {"condition": "storage_ready", "nodepool": pool.name, "termination_mode": "eventual"}
    decided = {"decision": "replace", "reason": "unhealthy", "nodepool": pool.name}

    async def counted() -> bool:
        return (
            repairing.metric("karpenter_nodeclaims_unhealthy_disrupted_total", **ended) == 1
            and repairing.metric("karpenter_voluntary_disruption_decisions_by_nodepool_total", **decided) == 1
        )

    await until(counted)


@pytest.mark.usefixtures("repairing")
async def test_n15_128_a_budget_for_unhealthy_holds_repair_back(
    make_pool: MakePool, sandbox: Sandbox, kube: Kube
) -> None:
    """N15-642: until the budget opens."""
    closed = [{"nodes": "0", "reasons": ["Unhealthy"]}]
    pool = await make_pool(requirements=SMALL, consolidate_after="Never", budgets=closed)
    name, _ = await sick(pool, sandbox)
    await pool.seen(pool.name, "DisruptionBlocked", "No allowed disruptions for disruption reason Unhealthy")
    assert not any(leaving(claim) for claim in await pool.claims())
    await kube.patch(NODEPOOLS, pool.name, {"spec": {"disruption": {"budgets": [{"nodes": "100%"}]}}})
    await pool.gone(name)
    await pool.running(1)


@pytest.mark.usefixtures("repairing")
async def test_n15_125_an_operator_keeps_repair_away_and_lets_it_go_on(make_pool: MakePool, sandbox: Sandbox) -> None:
    pool = await make_pool(requirements=SMALL, consolidate_after="Never")
    await pool.deploy(1)
    await pool.running(1)
    (claim,) = await pool.settled(1)
    name, node = claim["metadata"]["name"], claim["status"]["nodeName"]
    await pool.annotate_node(node, "karpenter.sh/do-not-repair", "true")
    report(sandbox, node, "StorageReady")
    words = ("StorageReady is False", "karpenter.sh/do-not-repair")
    await pool.seen(name, "DisruptionBlocked", *words)
    await pool.seen(node, "DisruptionBlocked", *words)
    shown = await asyncio.to_thread(sandbox.kubectl, "describe", "node", node)
    assert any("DisruptionBlocked" in line and words[0] in line for line in shown.splitlines()), "by the Node's UID"
    assert not any(leaving(claim) for claim in await pool.claims())
    await pool.annotate_node(node, "karpenter.sh/do-not-repair", None)
    await pool.gone(name)


@pytest.mark.usefixtures("repairing")
async def test_n15_126_a_pod_that_may_not_be_evicted_keeps_an_unhealthy_node_until_its_deadline(
    make_pool: MakePool, sandbox: Sandbox, kube: Kube
) -> None:
    """By the policy, that is 10 minutes; a shorter terminationGracePeriod counts instead."""
    annotations = {"karpenter.sh/do-not-disrupt": "true"}
    pool = await make_pool(requirements=SMALL, consolidate_after="Never")
    short = await make_pool(requirements=SMALL, consolidate_after="Never", template={"terminationGracePeriod": "5s"})
    for node_pool in (pool, short):
        await node_pool.pod("kept", annotations=annotations)
        await node_pool.running(1)
    claims = {made_pool.name: (await made_pool.settled(1))[0] for made_pool in (pool, short)}
    for claim in claims.values():
        report(sandbox, claim["status"]["nodeName"], "StorageReady")
    await short.gone(claims[short.name]["metadata"]["name"])
    leaving_claim = await begins_to_leave(pool, kube, claims[pool.name]["metadata"]["name"])
    deadline = datetime.fromisoformat(leaving_claim["metadata"]["annotations"][DEADLINE])
    assert deadline > datetime.now(UTC) + timedelta(minutes=5)
    (pod,) = await pool.pods()
    assert pod["status"]["phase"] == "Running"
    await pool.delete_pod("kept")


@pytest.mark.usefixtures("repairing")
async def test_n15_127_too_many_unhealthy_nodes_are_left_alone(make_pool: MakePool, sandbox: Sandbox) -> None:
    """N15-562: of two nodes one may be unhealthy. The other one of these is not due yet, but it counts."""
    pool = await make_pool(requirements=SMALL, consolidate_after="Never")
    await pool.deploy(2)
    await pool.running(2)
    first, second = await pool.settled(2)
    report(sandbox, first["status"]["nodeName"], "KernelReady", timedelta())
    report(sandbox, second["status"]["nodeName"], "NetworkingReady", timedelta(hours=1))
    for object_name in (second["metadata"]["name"], second["status"]["nodeName"], pool.name):
        await pool.seen(object_name, "NodeRepairBlocked", "More than 20%", pool.name)
    assert not any(leaving(claim) for claim in await pool.claims())
