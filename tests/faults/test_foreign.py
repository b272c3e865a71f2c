"""EKS Auto Mode in the same cluster: its NodePools, NodeClaims, Nodes and instances are left as they are (NC-07)."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest_asyncio
from temporalio.client import Client

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import EVENTS, NODECLAIMS, NODEPOOLS, NODES, PODS, Resource
from sandbox.cluster import Sandbox
from sandbox.ec2.client import Ec2Admin
from tenon.apis import labels
from tests.e2e.conftest import MakePool
from tests.e2e.pools import NAMESPACE, SMALL, Object
from tests.e2e.worker_process import WorkerProcess
from tests.faults.sweeping import only_by_hand, sweep
from workflows import names

REFERENCE = {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"}
LONG_AGO = "2026-01-01T00:00:00Z"
CONTROLLER_MANAGER = "kube-controller-manager"
OF_KUBERNETES = ("node.kubernetes.io/", "node.alpha.kubernetes.io/")
"""Taints and annotations that kube-controller-manager writes, at a moment of its own."""


@dataclass
class AutoMode:
    """What EKS Auto Mode has in the cluster: a pool, and claims that run, start and leave."""

    kube: Kube
    name: str
    instance: str

    @property
    def claims(self) -> list[str]:
        return [f"{self.name}-{part}" for part in ("running", "starting", "leaving")]

    @property
    def objects(self) -> list[tuple[Resource, str]]:
        return [(NODEPOOLS, self.name), *((NODECLAIMS, claim) for claim in self.claims)]

    async def put(self) -> None:
        running, _, leaving = self.claims
        spec = {"nodeClassRef": REFERENCE, "requirements": [], "expireAfter": "1s"}
        disruption = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}
        pool = {"template": {"spec": spec}, "disruption": disruption, "limits": {"cpu": "7"}, "weight": 100}
        await self.kube.create(NODEPOOLS, {"metadata": {"name": self.name}, "spec": pool})
        for name in self.claims:
            metadata = {
                "name": name,
                "labels": {labels.NODEPOOL: self.name, "eks.amazonaws.com/nodeclass": "default"},
                "finalizers": [labels.TERMINATION_FINALIZER],
            }
            await self.kube.create(NODECLAIMS, {"metadata": metadata, "spec": spec})
        done = [
            {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": LONG_AGO}
            for kind in ("Launched", "Registered", "Initialized", "Ready")
        ]
        provider_id = f"aws:///us-west-2a/{self.instance}"
        status = {"providerID": provider_id, "nodeName": self.name, "conditions": done}
        await self.kube.patch(NODECLAIMS, running, {"status": status}, subresource="status")
        await self.kube.delete(NODECLAIMS, leaving)
        await self._put_node(running, provider_id)
        # only a node of that pool could run it
        only = {"nodeSelector": {labels.NODEPOOL: self.name}, "containers": [{"name": "main", "image": "pause"}]}
        await self.kube.create(PODS, {"metadata": {"name": self.name}, "spec": only}, NAMESPACE)

    async def _put_node(self, claim: str, provider_id: str) -> None:
        owner = await self.kube.get(NODECLAIMS, claim)
        assert owner is not None
        metadata = {
            "name": self.name,
            "labels": {
                labels.NODEPOOL: self.name,
                labels.REGISTERED: "true",
                labels.INITIALIZED: "true",
                "eks.amazonaws.com/compute-type": "auto",
            },
            "finalizers": [labels.TERMINATION_FINALIZER],
            "ownerReferences": [
                {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": claim, "uid": owner["metadata"]["uid"]}
            ],
        }
        key, effect = labels.DISRUPTED_TAINT
        spec = {"providerID": provider_id, "taints": [{"key": key, "effect": effect}]}
        await self.kube.create(NODES, {"metadata": metadata, "spec": spec})

    async def bytes(self) -> list[str]:
        """Each object as the API server has it, a line for each field; of the Node what Kubernetes does not write."""
        objects = [await self.kube.get(resource, name) for resource, name in self.objects]
        objects.append(_own_of_node(await self.kube.get(NODES, self.name)))
        return [line for obj in objects for line in json.dumps(obj, sort_keys=True, indent=1).splitlines()]

    async def clear(self) -> None:
        await self.kube.delete(PODS, self.name, namespace=NAMESPACE, grace_seconds=0)
        for resource, name in [*self.objects, (NODES, self.name)]:
            if await self.kube.get(resource, name) is not None:
                await self.kube.patch(resource, name, {"metadata": {"finalizers": None}})
                await self.kube.delete(resource, name)


def _own_of_node(node: Object | None) -> dict[str, Any]:
    assert node is not None
    metadata = {**node["metadata"], "resourceVersion": ""}
    writers = [
        managed_field for managed_field in metadata["managedFields"] if managed_field["manager"] != CONTROLLER_MANAGER
    ]
    metadata["managedFields"] = [{**writer, "fieldsV1": {}} for writer in writers]  # who owns the taints changes
    annotations = metadata.get("annotations", {})
    metadata["annotations"] = {key: text for key, text in annotations.items() if not key.startswith(OF_KUBERNETES)}
    taints = [taint for taint in node["spec"]["taints"] if not taint["key"].startswith(OF_KUBERNETES)]
    return {"metadata": metadata, "spec": {**node["spec"], "taints": taints}}


@pytest_asyncio.fixture(loop_scope="session")
async def auto_mode(kube: Kube, ec2: Ec2Admin, sandbox: Sandbox) -> AsyncIterator[AutoMode]:
    name = f"auto-{uuid.uuid4().hex[:6]}"
    tags = {  # more than EKS Auto Mode writes: even an instance with Karpenter's own tags is its claim's
        labels.TAG_CLUSTER: sandbox.cluster_name,
        labels.TAG_NODEPOOL: name,
        labels.TAG_NODECLAIM: f"{name}-running",
        "eks:kubernetes-node-pool-name": name,
    }
    auto_mode = AutoMode(kube, name, ec2.plant_instance(tags, age_seconds=2 * 3600.0))
    try:
        await auto_mode.put()
        yield auto_mode
    finally:
        await auto_mode.clear()
        ec2.kill_instance(auto_mode.instance)


async def test_nc07_what_eks_auto_mode_has_in_the_cluster_is_left_as_it_is(
    auto_mode: AutoMode,
    worker: WorkerProcess,
    make_pool: MakePool,
    kube: Kube,
    client: Client,
    ec2: Ec2Admin,
    sandbox: Sandbox,
) -> None:
    """Through a whole life of a node of Tenon's own, a restart and two sweeps, with every lifetime long over."""
    cluster = sandbox.cluster_name
    (before, tags) = await auto_mode.bytes(), _instance(ec2, auto_mode.instance)["tags"]
    ec2.clear_calls()

    pool = await make_pool(consolidate_after="1s", requirements=SMALL)
    await pool.deploy(1)
    await pool.running(1)
    worker.crash()
    worker.start()  # which reads everything again, and compares it with the open workflows
    await pool.scale(2)
    await pool.running(2)
    mine = [claim["metadata"]["name"] for claim in await pool.settled(2)]
    async with only_by_hand(client, cluster):
        for _ in range(2):
            await sweep(client, cluster)
    await pool.scale(0)
    for claim in mine:
        await pool.gone(claim)

    assert await auto_mode.bytes() == before
    instance = _instance(ec2, auto_mode.instance)
    assert (instance["state"], instance["tags"]) == ("running", tags)
    calls = [json.dumps(call) for call in ec2.calls()]
    assert [call for call in calls if auto_mode.name in call or auto_mode.instance in call] == []
    query = f"WorkflowType = 'NodeClaim' AND TenonCluster = '{cluster}'"
    lives = {workflow.id async for workflow in client.list_workflows(query)}
    assert {names.nodeclaim_id(cluster, claim) for claim in mine} <= lives
    assert lives.isdisjoint({names.nodeclaim_id(cluster, claim) for claim in auto_mode.claims})
    events = [event for resource, name in auto_mode.objects for event in await _events(kube, resource, name)]
    assert events == []
    for series in ("karpenter_nodepools_limit", "karpenter_nodepools_usage", "karpenter_nodeclaims_created_total"):
        assert worker.metric(series, nodepool=auto_mode.name) == 0


async def _events(kube: Kube, resource: Resource, name: str) -> list[Object]:
    about = f"involvedObject.kind={resource.kind},involvedObject.name={name}"
    return await kube.list(EVENTS, field_selector=about)


def _instance(ec2: Ec2Admin, instance_id: str) -> Object:
    return next(instance for instance in ec2.instances() if instance["id"] == instance_id)
