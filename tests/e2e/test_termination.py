"""Nodes that are taken away by hand with kubectl."""

from __future__ import annotations

from activities.kubernetes.resources import PDBS
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tests.e2e.conftest import MakePool
from tests.e2e.pools import KEY, NAMESPACE, SMALL, leaving
from tests.workflows.waiting import until


async def test_kubectl_delete_node_moves_its_pods_and_ends_its_instance(make_pool: MakePool, sandbox: Sandbox) -> None:
    """TRM-01: pods of a deleted Node are evicted and run elsewhere; Node, NodeClaim and instance go."""
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


async def test_deleting_a_nodepool_takes_its_nodes_along(make_pool: MakePool, sandbox: Sandbox) -> None:
    """NP: NodeClaims belong to their NodePool, and are drained before their instances end."""
    pool = await make_pool(consolidate_after="Never")
    await pool.pod("only")
    await pool.running(1)
    (claim,) = await pool.settled(1)
    sandbox.kubectl("delete", "nodepool", pool.name, "--wait=false")

    async def going() -> bool:
        return all(leaving(found) for found in await pool.claims())

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
        found = await pool.kube.get(PDBS, pool.name, NAMESPACE)
        return found is not None and (found.get("status") or {}).get("expectedPods") == 1

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
