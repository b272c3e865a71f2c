"""A cluster as Karpenter 0.32 to 0.37 leaves it: objects stored as v1beta1, instances with the tags of that age.

Written by hand from the forms that it writes (V1B-01 to V1B-13), so that nothing of it goes through code of Tenon's.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import EC2NODECLASSES, NODECLAIMS, NODEPOOLS, NODES
from sandbox.cluster import Sandbox
from tests.e2e.pools import KEY, Object, Pool
from tests.e2e.upstream import FINALIZER, conditions, joined, retaint, settled
from tests.e2e.upstream_ec2 import TYPE, ZONE, Instances, pairs

OLD_POOLS, OLD_CLAIMS, OLD_CLASSES = (
    replace(resource, version="v1beta1") for resource in (NODEPOOLS, NODECLAIMS, EC2NODECLASSES)
)
HASHES = {
    "karpenter.sh/nodepool-hash": "6821555240594823858",
    "karpenter.sh/nodepool-hash-version": "v2",
    "karpenter.k8s.aws/ec2nodeclass-hash": "5763643673275251833",
    "karpenter.k8s.aws/ec2nodeclass-hash-version": "v2",
}
MAX_PODS = 17
DISRUPTING = {"key": "karpenter.sh/disruption", "value": "disrupting", "effect": "NoSchedule"}


class OldInstances(Instances):
    """What Karpenter of that age asks of EC2: `managed-by` where v1 has `eks:eks-cluster-name`, no taint at first."""

    @property
    def _tags(self) -> list[dict[str, str]]:
        cluster = self.sandbox.cluster_name
        return pairs(
            {
                f"kubernetes.io/cluster/{cluster}": "owned",
                "karpenter.sh/nodepool": self.pool,
                "karpenter.sh/managed-by": cluster,
                "karpenter.k8s.aws/ec2nodeclass": self.pool,
            }
        )

    @property
    def _kubelet(self) -> dict[str, Any]:
        return {"maxPods": MAX_PODS}

    def name(self, instance_id: str, claim: str, node: str) -> None:
        self.ec2.create_tags(Resources=[instance_id], Tags=pairs({"Name": node, "karpenter.sh/nodeclaim": claim}))


@dataclass
class OldKarpenter:
    """Its doings, one step at a time; it needs no v1 and no conversion."""

    kube: Kube
    sandbox: Sandbox
    pool: Pool

    @property
    def instances(self) -> OldInstances:
        """Its dealings with EC2."""
        return OldInstances(self.sandbox, self.pool.name)

    async def set_up(self) -> None:
        """NodePool and EC2NodeClass."""
        await asyncio.to_thread(self.instances.make_template)
        node_class = self.pool.node_class()
        del node_class["spec"]["amiSelectorTerms"]
        node_class["spec"]["amiFamily"] = "AL2023"
        node_class["metadata"] |= {"annotations": HASHES, "finalizers": ["karpenter.k8s.aws/termination"]}
        await self.kube.create(OLD_CLASSES, node_class)
        body = {
            "metadata": {"name": self.pool.name, "annotations": HASHES},
            "spec": {
                "template": {"metadata": {"labels": {KEY: self.pool.name}}, "spec": self._node([])},
                "disruption": {"consolidationPolicy": "WhenUnderutilized", "consolidateAfter": "Never"},
            },
        }
        await self.kube.create(OLD_POOLS, body)

    def _node(self, requirements: list[Object]) -> Object:
        """What pool and claim say alike of a node."""
        reference = {"apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", "name": self.pool.name}
        on_demand = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
        return {
            "nodeClassRef": reference,
            "taints": [{"key": KEY, "value": self.pool.name, "effect": "NoSchedule"}],
            "kubelet": {"maxPods": MAX_PODS},
            "requirements": [on_demand, *requirements],
        }

    async def taint(self, claim: Object) -> None:
        """What it does first with a node that is to go (V1B-11)."""
        node = await self.kube.get(NODES, claim["status"]["nodeName"])
        assert node is not None
        await retaint(self.kube, node, add=[DISRUPTING])

    async def node(self, name: str) -> Object:
        """A whole node: claim, instance, Node; the claim as v1beta1 has it then."""
        claim = await self._claim(f"{self.pool.name}-{name}")
        instance_id = await asyncio.to_thread(self.instances.buy)
        node = await joined(self.kube, instance_id)
        names, node_name = claim["metadata"]["name"], node["metadata"]["name"]
        owner = {"apiVersion": "karpenter.sh/v1beta1", "kind": "NodeClaim", "name": names, "blockOwnerDeletion": True}
        marks = settled(claim, {**owner, "uid": claim["metadata"]["uid"]})
        await retaint(self.kube, node, add=claim["spec"]["taints"], metadata=marks)
        status = {
            "providerID": f"aws:///{ZONE}/{instance_id}",
            "nodeName": node_name,
            "imageID": await asyncio.to_thread(self.instances.image),
            "capacity": {"cpu": "2", "memory": "7577Mi", "pods": str(MAX_PODS)},
            "allocatable": {"cpu": "1930m", "memory": "6903Mi", "pods": str(MAX_PODS)},
            "conditions": conditions("Launched", "Registered", "Initialized", "Ready"),
        }
        await self.kube.patch(OLD_CLAIMS, names, {"status": status}, subresource="status")
        await self.kube.patch(OLD_CLAIMS, names, {"metadata": {"annotations": {"karpenter.k8s.aws/tagged": "true"}}})
        await asyncio.to_thread(self.instances.name, instance_id, names, node_name)
        old_claim = await self.kube.get(OLD_CLAIMS, names)
        assert old_claim is not None
        return old_claim

    async def _claim(self, name: str) -> Object:
        pool = await self.kube.get(OLD_POOLS, self.pool.name)
        assert pool is not None
        owner = {"apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool", "name": self.pool.name}
        types = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c5.large", TYPE]}
        body = {
            "metadata": {
                "name": name,
                "labels": {
                    "karpenter.sh/nodepool": self.pool.name,
                    "karpenter.sh/capacity-type": "on-demand",
                    "node.kubernetes.io/instance-type": TYPE,
                    "topology.kubernetes.io/zone": ZONE,
                    KEY: self.pool.name,
                },
                "annotations": {**HASHES, "karpenter.sh/managed-by": self.sandbox.cluster_name},
                "finalizers": [FINALIZER],
                "ownerReferences": [{**owner, "uid": pool["metadata"]["uid"], "blockOwnerDeletion": True}],
            },
            "spec": {**self._node([types]), "resources": {"requests": {"cpu": "1150m", "pods": "3"}}},
        }
        return await self.kube.create(OLD_CLAIMS, body)
