"""A cluster as upstream Karpenter 1.15 leaves it: its Lease, its objects in Kubernetes, its instances with their tags.

Written by hand from the forms that Karpenter writes (NP-S6, NC-02 to NC-05, EC-S10, AAN-01, AAN-02, AWS-122), so that
nothing of it goes through code of Tenon's.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.resources import EC2NODECLASSES, LEASES, NODECLAIMS, NODEPOOLS, NODES
from sandbox.cluster import Sandbox
from tests.e2e.pools import KEY, Object, Pool
from tests.e2e.upstream_ec2 import TYPE, ZONE, Instances
from tests.workflows.waiting import until

BOOTING = {"node.kubernetes.io/not-ready", "node.cloudprovider.kubernetes.io/uninitialized"}
"""Taints of a Node that its kubelet and the cloud's controller take away; both write shortly after each other."""
LEASE_NAMESPACE, LEASE = "kube-system", "karpenter-leader-election"
HOLDER = "karpenter-6d9f8c7b5-x2x4k_0e1c9c3e-7c51-4a6e-9f0a-2d1c1f6f8b11"
FINALIZER = "karpenter.sh/termination"
POOL_HASHES = {"karpenter.sh/nodepool-hash": "7192598826009892108", "karpenter.sh/nodepool-hash-version": "v3"}
CLASS_HASHES = {
    "karpenter.k8s.aws/ec2nodeclass-hash": "17027975244315209952",
    "karpenter.k8s.aws/ec2nodeclass-hash-version": "v6",
}


def stamp() -> str:
    """Now, as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def conditions(*true: str, unknown: tuple[str, ...] = ()) -> list[Object]:
    """Conditions in Karpenter's form."""
    times = {"lastTransitionTime": stamp(), "observedGeneration": 1, "message": ""}
    result = [{"type": name, "status": "True", "reason": name, **times} for name in true]
    return [*result, *({"type": n, "status": "Unknown", "reason": "AwaitingReconciliation", **times} for n in unknown)]


async def joined(kube: Kube, instance_id: str) -> Object:
    """Wait until an instance's Node is there and ready; the Node."""
    manifests: list[Object] = []

    async def ready() -> bool:
        manifests[:] = [
            node
            for node in await kube.list(NODES)
            if str(node["spec"].get("providerID", "")).endswith(instance_id)
            and any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"]["conditions"])
            and not BOOTING & {taint["key"] for taint in node["spec"].get("taints") or ()}
        ]
        return bool(manifests)

    await until(ready)
    return manifests[0]


def settled(claim: Object, owner: Object) -> Object:
    """The metadata of a Node that is registered and initialized; ``owner`` names the claim in its age's form."""
    done = {"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}
    return {
        "labels": {**claim["metadata"]["labels"], **done},
        "annotations": claim["metadata"]["annotations"],
        "finalizers": [FINALIZER],
        "ownerReferences": [owner],
    }


async def retaint(
    kube: Kube, node: Object, *, add: list[Object], drop: str = "", metadata: Mapping[str, Any] | None = None
) -> None:
    """Write a Node's taints, and what else is to be written with them, on the Node as it is by then."""

    def marked(present: Mapping[str, Any]) -> Object:
        taints = [taint for taint in present["spec"].get("taints") or () if taint["key"] != drop]
        return {"metadata": dict(metadata or {}), "spec": {"taints": [*taints, *add]}}

    assert await change(kube, NODES, node["metadata"]["name"], marked, uid=node["metadata"]["uid"]) is not None


@dataclass
class Karpenter:
    """A Karpenter's doings, one step at a time."""

    kube: Kube
    sandbox: Sandbox
    pool: Pool
    bought: dict[str, str] = field(default_factory=dict)
    """NodeClaim -> instance."""

    @property
    def instances(self) -> Instances:
        """Its dealings with EC2."""
        return Instances(self.sandbox, self.pool.name)

    async def set_up(self, **template: Any) -> None:
        """NodePool and EC2NodeClass, resolved and hashed; a pool for small nodes that nothing disrupts."""
        await asyncio.to_thread(self.instances.make_template)
        node_class = self.pool.node_class()
        node_class["metadata"] |= {"annotations": CLASS_HASHES, "finalizers": ["karpenter.k8s.aws/termination"]}
        await self.kube.create(EC2NODECLASSES, node_class)
        pool = self.pool.node_pool(consolidate_after="Never", requirements=[], template=template, budgets=[])
        del pool["spec"]["disruption"]["budgets"]
        pool["metadata"] |= {"annotations": POOL_HASHES}
        await self.kube.create(NODEPOOLS, pool)
        status = {
            "resources": {"nodes": "0"},
            "conditions": conditions("ValidationSucceeded", "NodeClassReady", "NodeRegistrationHealthy", "Ready"),
        }
        await self.kube.patch(NODEPOOLS, self.pool.name, {"status": status}, subresource="status")

    async def claim(self, name: str, **spec: Any) -> Object:
        """Create a NodeClaim as for pending pods."""
        pool = await self.pool.read()
        body = {
            "metadata": {
                "name": f"{self.pool.name}-{name}",
                "generateName": f"{self.pool.name}-",
                "labels": {
                    "karpenter.sh/nodepool": self.pool.name,
                    "karpenter.k8s.aws/ec2nodeclass": self.pool.name,
                    "kubernetes.io/arch": "amd64",
                    "kubernetes.io/os": "linux",
                    KEY: self.pool.name,
                },
                "annotations": {**POOL_HASHES, **CLASS_HASHES, "karpenter.sh/nodeclaim-min-values-relaxed": "false"},
                "finalizers": [FINALIZER],
                "ownerReferences": [
                    {
                        "apiVersion": "karpenter.sh/v1",
                        "kind": "NodePool",
                        "name": self.pool.name,
                        "uid": pool["metadata"]["uid"],
                        "blockOwnerDeletion": True,
                    }
                ],
            },
            "spec": {
                "expireAfter": "720h",
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": self.pool.name},
                "taints": [{"key": KEY, "value": self.pool.name, "effect": "NoSchedule"}],
                "requirements": [
                    {"key": "karpenter.sh/nodepool", "operator": "In", "values": [self.pool.name]},
                    {"key": "karpenter.k8s.aws/ec2nodeclass", "operator": "In", "values": [self.pool.name]},
                    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c5.large", TYPE]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                ],
                "resources": {"requests": {"cpu": "1150m", "pods": "3"}},
                **spec,
            },
        }
        return await self.kube.create(NODECLAIMS, body)

    async def launch(self, claim: Object) -> str:
        """Buy its instance and write what Karpenter writes of it; the instance's id."""
        name = claim["metadata"]["name"]
        instance_id = await asyncio.to_thread(self.instances.buy)
        self.bought[name] = instance_id
        family, size = TYPE.split(".")
        metadata = {
            "labels": {
                "karpenter.sh/capacity-type": "on-demand",
                "node.kubernetes.io/instance-type": TYPE,
                "topology.kubernetes.io/zone": ZONE,
                "topology.kubernetes.io/region": "us-west-2",
                "karpenter.k8s.aws/instance-category": "m",
                "karpenter.k8s.aws/instance-family": family,
                "karpenter.k8s.aws/instance-size": size,
            },
            "annotations": {
                "karpenter.k8s.aws/instance-profile-name": "sandbox_8837478233416434567",
            },
        }
        await self.kube.patch(NODECLAIMS, name, {"metadata": metadata})
        status = {
            "providerID": f"aws:///{ZONE}/{instance_id}",
            "imageID": await asyncio.to_thread(self.instances.image),
            "capacity": {"cpu": "2", "memory": "7577Mi", "pods": "29"},
            "allocatable": {"cpu": "1930m", "memory": "6903Mi", "pods": "29"},
            "conditions": conditions("Launched", unknown=("Registered", "Initialized", "Ready")),
        }
        await self.kube.patch(NODECLAIMS, name, {"status": status}, subresource="status")
        return instance_id

    async def joined(self, claim: Object) -> Object:
        """Wait until the instance's Node is there and ready; the Node."""
        return await joined(self.kube, self.bought[claim["metadata"]["name"]])

    async def settle(self, claim: Object) -> str:
        """Register and initialize its Node, and tag its instance; the Node's name."""
        name = claim["metadata"]["name"]
        claim = await self.kube.get(NODECLAIMS, name) or claim
        node = await self.joined(claim)
        owner = {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "name": name,
            "uid": claim["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
        marks = settled(claim, owner)
        await retaint(self.kube, node, add=claim["spec"]["taints"], drop="karpenter.sh/unregistered", metadata=marks)
        done = conditions("Launched", "Registered", "Initialized", "Ready", "Consolidatable", "ConsistentStateFound")
        status = {"nodeName": node["metadata"]["name"], "conditions": done, "lastPodEventTime": stamp()}
        await self.kube.patch(NODECLAIMS, name, {"status": status}, subresource="status")
        tagged = {"karpenter.k8s.aws/tagged": "true", "compatibility.karpenter.k8s.aws/cluster-name-tagged": "true"}
        await self.kube.patch(NODECLAIMS, name, {"metadata": {"annotations": tagged}})
        await asyncio.to_thread(self.instances.name, self.bought[name], name, node["metadata"]["name"])
        return str(node["metadata"]["name"])

    async def node(self, name: str, **spec: Any) -> Object:
        """A whole node: claim, instance, Node; the claim as it is then."""
        claim = await self.claim(name, **spec)
        await self.launch(claim)
        await self.settle(claim)
        result = await self.kube.get(NODECLAIMS, claim["metadata"]["name"])
        assert result is not None
        return result

    async def taint(self, claim: Object) -> None:
        """What Karpenter does first with a node that it means to disrupt (TNT-01, LBL-10 comes with the drain)."""
        node = await self.kube.get(NODES, claim["status"]["nodeName"])
        assert node is not None
        await retaint(self.kube, node, add=[{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}])

    async def reboot(self, claim: Object) -> None:
        """Reboot its machine as for a fault, up to EC2's answer (N15-152 to N15-161). It never sees the end."""
        name, node = claim["metadata"]["name"], await self.kube.get(NODES, claim["status"]["nodeName"])
        assert node is not None
        fence = {"key": "karpenter.sh/rebooting", "effect": "NoSchedule"}
        await retaint(self.kube, node, add=[fence], metadata={"labels": {"karpenter.sh/initialized": None}})
        recorded = {
            "karpenter.sh/reboot-pre-boot-id": node["status"]["nodeInfo"]["bootID"],
            "karpenter.sh/reboot-termination-grace-period": "5m0s",
        }
        await self.kube.patch(NODECLAIMS, name, {"metadata": {"annotations": recorded}})
        times = {"lastTransitionTime": stamp(), "observedGeneration": 1}
        changed = {
            "Rebooting": ("True", "RebootIssued", "rebooting for AcceleratedHardwareReady/NvidiaXID48Error"),
            "DisruptionReason": ("True", "Unhealthy", "Unhealthy"),
            "Initialized": ("Unknown", "Rebooting", "rebooting"),
            "Ready": ("Unknown", "ReconcilingDependents", "Initialized=Unknown"),
        }
        others = [entry for entry in claim["status"]["conditions"] if entry["type"] not in changed]
        written = [
            {"type": type_, "status": status, "reason": reason, "message": message, **times}
            for type_, (status, reason, message) in changed.items()
        ]
        await self.kube.patch(NODECLAIMS, name, {"status": {"conditions": [*others, *written]}}, subresource="status")
        await asyncio.to_thread(self.instances.reboot, self.bought[name])

    async def lead(self) -> None:
        """Renew its Lease until cancelled; then it is left to run out, as a killed leader leaves it."""
        while True:
            spec = {
                "holderIdentity": HOLDER,
                "leaseDurationSeconds": 15,
                "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            }
            if await self.kube.patch(LEASES, LEASE, {"spec": spec}, namespace=LEASE_NAMESPACE) is None:
                await self.kube.create(LEASES, {"metadata": {"name": LEASE}, "spec": spec}, LEASE_NAMESPACE)
            await asyncio.sleep(2)

    async def release(self) -> None:
        """Give its Lease up, as a Karpenter that is stopped does."""
        spec = {"holderIdentity": "", "leaseDurationSeconds": 1}
        await self.kube.patch(LEASES, LEASE, {"spec": spec}, namespace=LEASE_NAMESPACE)

    @asynccontextmanager
    async def leads(self) -> AsyncIterator[None]:
        """Karpenter leads, and is stopped in the end."""
        renewing = asyncio.create_task(self.lead())

        async def held() -> bool:
            lease = await self.kube.get(LEASES, LEASE, LEASE_NAMESPACE)
            return lease is not None and lease["spec"]["holderIdentity"] == HOLDER

        try:
            await until(held)
            yield
        finally:
            renewing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await renewing
            await self.release()
