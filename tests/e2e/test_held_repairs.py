"""Repairs that something holds back, or that must end a node before its replacement starts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest_asyncio

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS, NODEPOOLS, PODS
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tests.e2e.conftest import MakePool, Run
from tests.e2e.moments import recorded
from tests.e2e.pools import NAMESPACE, SMALL, Object, Pool, condition, leaving
from tests.e2e.repair_policies import DEADLOCK, Policies, deadlock, stated
from tests.e2e.worker import Worker
from tests.workflows.waiting import until

KEPT = {labels.DO_NOT_DISRUPT: "true"}
BOUND = "8s"
KIND, ZONE, TEAM = "m5.large", "us-west-2a", "repair-drills"
RESERVED = [
    {"key": labels.INSTANCE_TYPE, "operator": "In", "values": [KIND]},
    {"key": labels.ZONE, "operator": "In", "values": [ZONE]},
]


@pytest_asyncio.fixture(loop_scope="session")
async def policies(kube: Kube, sandbox: Sandbox) -> AsyncIterator[Policies]:
    async with stated(kube, sandbox) as policies:
        yield policies


async def leaves(pool: Pool, name: str) -> Object:
    """Wait until a NodeClaim begins to leave; the NodeClaim at that moment."""
    claims: list[Object] = []

    async def begins() -> bool:
        claim = await pool.kube.get(NODECLAIMS, name)
        assert claim is not None, await pool.history()
        claims.append(claim)
        return leaving(claim)

    await until(begins, within=180.0)
    return claims[-1]


async def test_n15_126_a_pod_that_may_not_be_disrupted_goes_at_the_bound_or_keeps_the_node(
    make_pool: MakePool, sandbox: Sandbox, policies: Policies, kube: Kube, tenon: Run
) -> None:
    """N15-106: one policy bounds the drain, the other one does not, and neither does the NodeClaim."""
    bounded = await make_pool(requirements=SMALL, consolidate_after="Never")
    endless = await make_pool(requirements=SMALL, consolidate_after="Never")
    await policies.state(bounded.name, {**DEADLOCK, "terminationGracePeriod": BOUND})
    await policies.state(endless.name, DEADLOCK)
    names: dict[str, str] = {}
    nodes: list[str] = []
    for pool in (bounded, endless):
        await pool.deploy(1, annotations=KEPT)
    for pool in (bounded, endless):
        await pool.running(1)
        (claim,) = await pool.settled(1)
        names[pool.name] = claim["metadata"]["name"]
        nodes.append(claim["status"]["nodeName"])
    (doomed,) = await bounded.pods()
    for node in nodes:  # only now, because the first repair begins at once
        deadlock(sandbox, node)

    claim = await leaves(bounded, names[bounded.name])
    deadline = datetime.fromisoformat(claim["metadata"]["annotations"][labels.TERMINATION_TIMESTAMP])

    async def is_gone() -> bool:
        pod = await kube.get(PODS, doomed["metadata"]["name"], NAMESPACE)
        return pod is None or leaving(pod)

    await until(is_gone)
    assert datetime.now(UTC) >= deadline, "the pod went before its time"
    await bounded.gone(names[bounded.name])
    await bounded.running(1)

    name = names[endless.name]
    (pod,) = await endless.pods()
    message = await endless.seen(name, "DisruptionBlocked", "repair requires a termination grace period")
    assert pod["metadata"]["name"] in message
    shown = await asyncio.to_thread(tenon, "node", "show", name)
    assert "KernelDeadlock is True (DockerHung)" in shown.stdout, shown.stderr
    assert pod["metadata"]["name"] in shown.stdout
    assert not any(leaving(claim) for claim in await endless.claims())
    patch = {"metadata": {"annotations": {labels.DO_NOT_DISRUPT: None}}}
    await kube.patch(PODS, pod["metadata"]["name"], patch, namespace=NAMESPACE)
    await endless.gone(name)
    await endless.running(1)


async def test_n15_192_n15_196_a_sick_node_without_room_for_its_replacement_leaves_first(
    worker: Worker, make_pool: MakePool, sandbox: Sandbox, policies: Policies, kube: Kube
) -> None:
    """N15-200: the only place of a reservation, and a static NodePool at its limit."""
    reservation = sandbox.ec2().reserve(KIND, ZONE, 1, tags={"team": TEAM})
    reserved = await make_pool(
        requirements=RESERVED,
        consolidate_after="Never",
        capacity_types=["reserved"],
        capacityReservationSelectorTerms=[{"tags": {"team": TEAM}}],
    )
    static = await make_pool(replicas=1, requirements=SMALL)
    await kube.patch(NODEPOOLS, static.name, {"spec": {"limits": {"nodes": "1"}}})
    await reserved.deploy(1)
    await reserved.running(1)
    reasons = {reserved.name: "no-reserved-capacity", static.name: "static-at-limit"}
    before: dict[str, str] = {}
    selector = f"{labels.NODEPOOL} in ({reserved.name}, {static.name})"
    async with recorded(kube, selector, (NODECLAIMS,)) as moments:
        for pool in (reserved, static):
            await policies.state(pool.name, {**DEADLOCK, "terminationGracePeriod": BOUND})
            (claim,) = await pool.settled(1)
            before[pool.name] = claim["metadata"]["name"]
            deadlock(sandbox, claim["status"]["nodeName"])
        for pool in (reserved, static):
            await pool.seen(before[pool.name], "TerminatingFirst")
            await pool.gone(before[pool.name])
            (claim,) = await pool.settled(1)
            assert claim["metadata"]["name"] != before[pool.name]
            await pool.seen(pool.name, "ReplacementRunning", before[pool.name])
    await reserved.running(1)
    assert (await reserved.claim())["metadata"]["labels"][labels.RESERVATION_ID] == reservation
    for objects in moments.replay():
        initialized = [
            claim["metadata"]["labels"][labels.NODEPOOL]
            for claim in objects["NodeClaim"].values()
            if condition(claim, "Initialized").get("status") == "True" and not leaving(claim)
        ]
        assert len(initialized) == len(set(initialized)), "a replacement ran beside its node"
    for name, why in reasons.items():
        decided = {"nodepool": name, "reason": "unhealthy", "terminate_first_reason": why}
        assert worker.metric("karpenter_voluntary_disruption_terminate_first_decisions_total", **decided) == 1
    sandbox.ec2().end_reservation(reservation)
