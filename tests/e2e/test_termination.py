"""Nodes that are taken away by hand with kubectl, or by expiry, and the pods on them."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from temporalio.client import Client
from temporalio.service import RPCError

from activities.kubernetes.resources import NODECLAIMS, NODEPOOLS, PDBS, PODS
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tenon.kube.timestamps import parse_instant
from tenon.node.expiration import EXPIRY_WAITS
from tenon.node.leave_text import SOMEBODY
from tests.e2e.conftest import MakePool, Run
from tests.e2e.lives import life_of
from tests.e2e.moments import recorded
from tests.e2e.pools import KEY, NAMESPACE, SMALL, WITHIN, condition, leaving
from tests.workflows.waiting import until
from workflows import names
from workflows.nodeclaim import NodeClaimWorkflow

EXPIRES, GRACE, POD_GRACE = 45, 24, 3
"""Seconds: a node's life, long enough for its pod to run on a slow machine too; its grace period, long enough for a try
of the drain, which tells who blocks it; and the grace period of the pod.
"""
WAITING = 60
"""Seconds: the life of nodes that must all be live before the first of them expires."""


def instant(text: str) -> datetime:
    """A timestamp of an object."""
    datetime = parse_instant(text)
    assert datetime is not None
    return datetime


async def test_kubectl_delete_node_moves_its_pods_and_ends_its_instance(
    make_pool: MakePool, sandbox: Sandbox, client: Client
) -> None:
    """TRM-01, EVT-04: pods of a deleted Node are evicted and run elsewhere; Node, NodeClaim and instance go."""
    pool = await make_pool(consolidate_after="Never", requirements=SMALL)
    await pool.deploy(2)
    pods = await pool.running(2)
    first, second = await pool.settled(2)
    node, name = first["status"]["nodeName"], first["metadata"]["name"]
    moved = next(pod for pod in pods if pod["spec"]["nodeName"] == node)
    stayed = next(pod for pod in pods if pod["spec"]["nodeName"] != node)
    sandbox.kubectl("delete", "node", node, "--wait=false")
    await pool.gone(name)
    await pool.seen(moved["metadata"]["name"], "Evicted", node)
    life = await life_of(client, sandbox, name)
    assert (life.reason, life.detail, life.actor) == ("deleted", "the Node was deleted", SOMEBODY)
    again = await pool.running(2)
    assert stayed["metadata"]["uid"] in {pod["metadata"]["uid"] for pod in again}
    assert node not in {pod["spec"]["nodeName"] for pod in again}
    states = {i["tags"][labels.TAG_NODECLAIM]: i["state"] for i in pool.instances()}
    assert (states[name], states[second["metadata"]["name"]]) == ("terminated", "running")


async def test_a_grace_period_ends_a_drain_that_a_budget_blocks(make_pool: MakePool, sandbox: Sandbox) -> None:
    """TRM: with terminationGracePeriod the drain of a deleted NodeClaim becomes forceful when its time is over."""
    pool = await make_pool(consolidate_after="Never", template={"terminationGracePeriod": "2s"})
    await pool.pod("guarded", terminationGracePeriodSeconds=1)
    await pool.protect("guarded")
    await pool.running(1)
    (claim,) = await pool.settled(1)
    name = claim["metadata"]["name"]
    sandbox.kubectl("delete", "nodeclaim", name, "--wait=false")
    await pool.seen(claim["status"]["nodeName"], "TerminationGracePeriodExpiring")
    await pool.gone(name)


async def test_dis80_dis82_expiry_with_a_blocking_budget_ends_at_the_grace_period(
    make_pool: MakePool, client: Client, sandbox: Sandbox
) -> None:
    """DIS-06: nobody deletes anything. The pod is not evicted, and is deleted when terminationGracePeriod ends."""
    limits = {"expireAfter": f"{EXPIRES}s", "terminationGracePeriod": f"{GRACE}s"}
    pool = await make_pool(consolidate_after="Never", requirements=SMALL, template=limits)
    budget = await pool.protect("web")
    async with recorded(pool.kube, f"{KEY}={pool.name}", (PODS, NODECLAIMS)) as moments:
        await pool.deploy(1, terminationGracePeriodSeconds=POD_GRACE)
        (pod,) = await pool.running(1)
        name = await pool.claim_of(pod)
        (claim,) = (claim for claim in await pool.claims() if claim["metadata"]["name"] == name)
        await pool.seen(pod["spec"]["nodeName"], "FailedDraining", pod["metadata"]["name"], budget)
        await pool.seen(pod["spec"]["nodeName"], "TerminationGracePeriodExpiring")
        await pool.gone(name)

    expired = moments.states(claim["metadata"]["uid"])[-1]
    created, deleted, forced = (
        instant(expired["metadata"]["creationTimestamp"]),
        instant(expired["metadata"]["deletionTimestamp"]),
        instant(expired["metadata"]["annotations"][labels.TERMINATION_TIMESTAMP]),
    )
    assert deleted >= created + timedelta(seconds=EXPIRES)
    assert forced == deleted + timedelta(seconds=GRACE)
    ends = next(
        state["metadata"]["deletionTimestamp"] for state in moments.states(pod["metadata"]["uid"]) if leaving(state)
    )
    assert instant(ends) >= forced, "the pod has all of its own grace period before that of the node ends"
    assert await pool.events(pod["metadata"]["name"], "Evicted") == []
    assert len(await pool.events(pod["metadata"]["name"], "Disrupted")) == 1
    assert (await life_of(client, sandbox, name)).reason == "expired"


async def test_wsh28_qrk13_expired_nodes_wait_for_budgets_where_the_nodepool_asks(
    make_pool: MakePool, client: Client, sandbox: Sandbox, tenon: Run
) -> None:
    """A budget of none keeps them all, and `tenon explain node` says so. Within a budget of one, they leave in turn."""
    pool = await make_pool(
        consolidate_after="Never", requirements=SMALL, template={"expireAfter": f"{WAITING}s"}, budgets=[{"nodes": "0"}]
    )
    asks = {"metadata": {"annotations": {labels.EXPIRE_WITHIN_BUDGETS: "true"}}}
    await pool.kube.patch(NODEPOOLS, pool.name, asks)
    await pool.deploy(3)
    await pool.running(3)
    old = [claim["metadata"]["name"] for claim in await pool.claims()]

    async def wait() -> bool:
        workflow_handles = [client.get_workflow_handle(names.nodeclaim_id(sandbox.cluster_name, name)) for name in old]
        try:
            states = [await item.query(NodeClaimWorkflow.status) for item in workflow_handles]
        except RPCError:  # no worker answered in time
            return False
        return all(EXPIRY_WAITS in {line.text for line in state.timeline} for state in states)

    await until(wait, within=WITHIN)
    explained = await asyncio.to_thread(tenon, "explain", "node", old[0])
    assert "and waits (tenon.sh/expire-within-budgets)" in explained.stdout, explained.stderr
    closed = f"Budget (nodes: 0) of NodePool {pool.name} allows no more of its 3 nodes to be disrupted for Expired"
    assert closed in explained.stdout
    await pool.seen(pool.name, "DisruptionBlocked", "disruption reason Expired")
    assert [claim["metadata"]["name"] for claim in await pool.claims() if not leaving(claim)] == old

    async with recorded(pool.kube, f"{labels.NODEPOOL}={pool.name}", (NODECLAIMS,)) as moments:
        await pool.kube.patch(NODEPOOLS, pool.name, {"spec": {"disruption": {"budgets": [{"nodes": "1"}]}}})
        for name in old:
            await pool.gone(name)
        await pool.kube.patch(NODEPOOLS, pool.name, {"spec": {"disruption": {"budgets": [{"nodes": "0"}]}}})
    for objects in moments.replay():
        away = [
            claim["metadata"]["name"]
            for claim in objects["NodeClaim"].values()
            if leaving(claim)
            and condition(claim, "Initialized").get("status") == "True"
            and condition(claim, "InstanceTerminating").get("status") != "True"
        ]
        assert len(away) <= 1, f"the budget is one node, and {away} are leaving"
    for name in old:
        assert (await life_of(client, sandbox, name)).reason == "expired"


async def test_deleting_a_nodepool_takes_its_nodes_along(make_pool: MakePool, sandbox: Sandbox) -> None:
    """NP: NodeClaims belong to their NodePool, and are drained before their instances end."""
    pool = await make_pool(consolidate_after="Never")
    await pool.pod("only")
    await pool.running(1)
    (claim,) = await pool.settled(1)
    sandbox.kubectl("delete", "nodepool", pool.name, "--wait=false")

    async def going() -> bool:
        return all(leaving(claim) for claim in await pool.claims())

    await until(going)
    await pool.gone(claim["metadata"]["name"])
    assert await pool.pods() == []


async def test_pods_of_a_node_on_its_way_out_get_their_new_node_before_they_are_evicted(
    make_pool: MakePool, sandbox: Sandbox
) -> None:
    """SCH-005: a budget that is used up holds the drain, and the new node waits for its pod; none is bought twice."""
    pool = await make_pool(consolidate_after="1s", requirements=SMALL)
    await pool.deploy(1)
    (pod,) = await pool.running(1)
    (old,) = await pool.settled(1)
    budget = {"minAvailable": 1, "selector": {"matchLabels": {KEY: pool.name}}}
    await pool.kube.create(
        PDBS, {"metadata": {"name": pool.name, "labels": {KEY: pool.name}}, "spec": budget}, NAMESPACE
    )

    async def used_up() -> bool:
        pdb = await pool.kube.get(PDBS, pool.name, NAMESPACE)
        return pdb is not None and (pdb.get("status") or {}).get("expectedPods") == 1

    await until(used_up)
    sandbox.kubectl("delete", "nodeclaim", old["metadata"]["name"], "--wait=false")
    await pool.settled(2)
    (still,) = await pool.running(1)
    assert still["metadata"]["uid"] == pod["metadata"]["uid"]
    await pool.kube.delete(PDBS, pool.name, namespace=NAMESPACE)
    await pool.gone(old["metadata"]["name"])
    (moved,) = await pool.running(1)
    new = await pool.claim()
    assert moved["spec"]["nodeName"] == new["status"]["nodeName"]
    assert len(pool.instances()) == 2
