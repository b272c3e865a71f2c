"""Things that happen while a node is on its way."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from temporalio.client import Client

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS, NODEPOOLS, NODES
from sandbox.cluster import Sandbox
from sandbox.ec2.client import Ec2Admin
from tenon.apis import labels
from tenon.node.state import Stage
from tests.e2e.conftest import MakePool
from tests.e2e.histories import kind
from tests.e2e.lives import life_of
from tests.e2e.pools import KEY, SMALL, Object, Pool, condition
from tests.workflows.waiting import until
from workflows import names

UNUSUAL = "m6a.large"
"""A type that no other test relies on: what EC2 refuses is avoided for minutes, by the plans of later tests too."""


@pytest.fixture
def ec2(sandbox: Sandbox) -> Iterator[Ec2Admin]:
    """EC2's side door; holds, faults and boot times are as before afterwards."""
    admin = sandbox.ec2()
    yield admin
    admin.release()
    admin.clear_faults()
    admin.clear_boot()


async def launched(pool: Pool, *, but: str = "") -> Object:
    """Wait for a launched claim other than ``but``."""
    manifests: list[Object] = []

    async def some() -> bool:
        manifests[:] = [
            claim
            for claim in await pool.claims()
            if claim["metadata"]["name"] != but and condition(claim, "Launched").get("status") == "True"
        ]
        return bool(manifests)

    await until(some)
    return manifests[0]


async def test_a_pod_that_kube_scheduler_binds_first_is_left_alone(
    make_pool: MakePool, client: Client, sandbox: Sandbox, ec2: Ec2Admin
) -> None:
    """Room appears on an old node while a new one boots for the pod: the pod goes there, the new node goes again."""
    pool = await make_pool(consolidate_after="10m", requirements=SMALL)
    await pool.pod("first")
    await pool.running(1)
    (old,) = await pool.settled(1)
    ec2.boot(never=True)
    late = await pool.pod("late")
    new = await launched(pool, but=old["metadata"]["name"])
    await pool.delete_pod("first")
    (pod,) = await pool.running(1)
    assert pod["metadata"]["uid"] == late["metadata"]["uid"]
    assert pod["spec"]["nodeName"] == old["status"]["nodeName"], "its node was empty, and stayed until then"

    ec2.clear_boot()
    await pool.kube.patch(NODEPOOLS, pool.name, {"spec": {"disruption": {"consolidateAfter": "1s"}}})
    await pool.gone(new["metadata"]["name"])
    life = await life_of(client, sandbox, new["metadata"]["name"])
    assert (life.reason, life.pods_planned, life.pods_bound, life.pods_evicted) == ("Empty", 1, 0, 0)
    (same,) = await pool.claims()
    assert same["metadata"]["uid"] == old["metadata"]["uid"]
    (still,) = await pool.pods()
    assert still["spec"]["nodeName"] == old["status"]["nodeName"]


async def test_a_pod_deleted_while_its_node_boots_leaves_an_empty_node_that_goes(
    make_pool: MakePool, client: Client, sandbox: Sandbox, ec2: Ec2Admin
) -> None:
    """The node comes, nothing is bound, and it is taken away as empty."""
    pool = await make_pool(consolidate_after="1s")
    ec2.boot(never=True)
    await pool.pod("fickle")
    claim = await launched(pool)
    await pool.delete_pod("fickle")
    ec2.clear_boot()
    name = claim["metadata"]["name"]
    await pool.gone(name)
    life = await life_of(client, sandbox, name)
    assert (life.reason, life.pods_planned, life.pods_bound) == ("Empty", 1, 0)
    assert any(entry.text == "live" for entry in life.timeline)
    assert len(pool.instances()) == 1


async def test_a_nodeclaim_made_by_kubectl_becomes_a_node(make_pool: MakePool, kube: Kube, sandbox: Sandbox) -> None:
    """A stand-alone NodeClaim, without NodePool, lives until it is deleted."""
    pool = await make_pool()
    name = f"{pool.name}-alone"
    body = {
        "apiVersion": NODECLAIMS.api_version,
        "kind": "NodeClaim",
        "metadata": {"name": name, "labels": {KEY: pool.name}},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": pool.name},
            "requirements": [
                {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["c5.large", "m5.large"]},
                {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
            ],
            "taints": [{"key": KEY, "value": pool.name, "effect": "NoSchedule"}],
            "resources": {"requests": {"cpu": "1"}},
        },
    }
    sandbox.kubectl("create", "-f", "-", stdin=json.dumps(body))

    async def ready() -> bool:
        return condition(await kube.get(NODECLAIMS, name), "Ready").get("status") == "True"

    await until(ready)
    claim = await kube.get(NODECLAIMS, name)
    assert claim is not None
    assert labels.TERMINATION_FINALIZER in claim["metadata"]["finalizers"]
    (instance,) = pool.instances(name)
    assert (instance["state"], instance["capacity_type"]) == ("running", "on-demand")
    assert instance["type"] in ("c5.large", "m5.large")
    node = await kube.get(NODES, claim["status"]["nodeName"])
    assert node is not None
    assert node["metadata"]["labels"][KEY] == pool.name
    assert labels.NODEPOOL not in node["metadata"]["labels"]

    await pool.pod("guest")
    await pool.running(1)  # kube-scheduler uses it like any node
    assert await pool.claims() == []
    await pool.delete_pod("guest")
    sandbox.kubectl("delete", "nodeclaim", name, "--wait=false")
    await pool.gone(name)
    assert await kube.get(NODES, claim["status"]["nodeName"]) is None


async def test_a_nodeclaim_deleted_while_it_is_launched_leaves_no_instance(
    make_pool: MakePool, client: Client, sandbox: Sandbox, ec2: Ec2Admin
) -> None:
    """The launch that was under way is found and ended."""
    pool = await make_pool()
    ec2.hold("CreateFleet")
    await pool.pod("one")

    async def launching() -> bool:
        return ec2.held() == 1

    await until(launching)
    claim = await pool.claim()
    name = claim["metadata"]["name"]
    assert condition(claim, "Launched").get("status") != "True"
    await pool.delete_pod("one")
    sandbox.kubectl("delete", "nodeclaim", name, "--wait=false")
    handle = client.get_workflow_handle(names.nodeclaim_id(sandbox.cluster_name, name))

    async def told() -> bool:
        return "WORKFLOW_EXECUTION_SIGNALED" in [kind(event) async for event in handle.fetch_history_events()]

    await until(told)  # of a claim without node a life is told only that it is deleted
    ec2.release()
    await pool.gone(name)
    life = await life_of(client, sandbox, name)
    assert life.reason == "deleted"
    assert [i["state"] for i in pool.instances()] == ["terminated"]
    assert life.instance_id == pool.instances()[0]["id"]
    assert await pool.nodes() == []
    assert Stage.LIVE.value not in {entry.text for entry in life.timeline}


async def test_without_spot_capacity_the_node_is_bought_on_demand(make_pool: MakePool, ec2: Ec2Admin) -> None:
    """AWS-033: offerings that EC2 refuses are avoided, and the pod still gets its node."""
    pool = await make_pool(requirements=[{"key": labels.INSTANCE_TYPE, "operator": "In", "values": [UNUSUAL]}])
    ec2.capacity(0, type=UNUSUAL, capacity_type="spot")
    try:
        await pool.pod("one")
        await pool.running(1)
        running = [i for i in pool.instances() if i["state"] == "running"]
        assert [i["capacity_type"] for i in running] == ["on-demand"]
    finally:
        ec2.clear_capacity()


async def test_a_launch_whose_answer_is_lost_buys_once(make_pool: MakePool, ec2: Ec2Admin) -> None:
    """AWS: an answer of CreateFleet that never came is asked for again with the same token."""
    pool = await make_pool()
    ec2.fault("CreateFleet", "InternalError", status=500, after_effect=True)
    await pool.pod("one")
    await pool.running(1)
    claim = await pool.claim()
    (instance,) = pool.instances()
    assert claim["status"]["providerID"].endswith(instance["id"])
    parameters = (call["parameters"] for call in ec2.calls("CreateFleet"))
    tokens = [item["ClientToken"] for item in parameters if item.get("ClientToken") and "DryRun" not in item]
    assert tokens.count(instance["tags"][labels.TAG_TOKEN]) > 1
