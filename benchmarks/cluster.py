"""Creates a benchmark's objects in the sandbox's cluster: an EC2NodeClass, a NodePool, Deployments and pods."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from activities.kubernetes.bounded_concurrency import bounded
from activities.kubernetes.client import Kube
from activities.kubernetes.resources import EC2NODECLASSES, NODEPOOLS, PODS, Resource
from sandbox.cluster import Sandbox
from tenon.apis import labels

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
Object = dict[str, Any]
LABEL = "bench"
READY_SECONDS = 60.0
CONSOLIDATES: Object = {
    "consolidationPolicy": "WhenEmptyOrUnderutilized",
    "consolidateAfter": "30s",
    "budgets": [{"nodes": "100%"}],
}
"""How NodePools disrupt in the benchmarks that compare consolidation."""
CREATORS = 200
"""Maximum number of pods that are created concurrently."""


@dataclass(frozen=True, slots=True)
class Load:
    """Identical pods of one Deployment."""

    name: str
    pods: int
    cpu: str
    memory: str

    def deployment(self) -> Object:
        """Return the Deployment."""
        mine = {"app": self.name, LABEL: "load"}
        requests = {"cpu": self.cpu, "memory": self.memory}
        container = {"name": "main", "image": "pause", "resources": {"requests": requests}}
        spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": self.name, "namespace": "default", "labels": mine},
            "spec": {
                "replicas": self.pods,
                "selector": {"matchLabels": mine},
                "template": {"metadata": {"labels": mine}, "spec": spec},
            },
        }

    def plain_pods(self) -> Iterator[Object]:
        """Yield the pods one by one, without a Deployment."""
        for number in range(self.pods):
            template = self.deployment()["spec"]["template"]
            name = f"{self.name}-{number}"
            yield {**template, "metadata": {**template["metadata"], "name": name, "namespace": "default"}}


async def create_pending(kube: Kube, bodies: Iterable[Object]) -> None:
    """Create pods with the condition that kube-scheduler sets on a pod that it cannot schedule."""
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes available"}

    async def create(body: Object) -> None:
        metadata = body["metadata"]
        await kube.create(PODS, body, metadata["namespace"])
        status = {"status": {"conditions": [refused]}}
        await kube.patch(PODS, metadata["name"], status, namespace=metadata["namespace"], subresource="status")

    await bounded(bodies, CREATORS, create)


def node_pool(*, least_cpus: int = 0, most_cpus: int) -> Object:
    """Return an on-demand NodePool of common amd64 families with this range of vCPUs. It never disrupts its nodes."""
    cpu = "karpenter.k8s.aws/instance-cpu"
    manifests: list[Object] = [
        {"key": labels.ARCH, "operator": "In", "values": ["amd64"]},
        {"key": labels.CAPACITY_TYPE, "operator": "In", "values": [labels.ON_DEMAND]},
        {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
        {"key": cpu, "operator": "Lt", "values": [str(most_cpus + 1)]},
        {"key": cpu, "operator": "Gt", "values": [str(max(0, least_cpus - 1))]},
    ]
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {
            "template": {"spec": {"nodeClassRef": reference, "requirements": manifests, "expireAfter": "Never"}},
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"},
        },
    }


async def prepare(sandbox: Sandbox, kube: Kube, pool: Object) -> None:
    """Apply the EC2NodeClass and the NodePool, and wait until both are ready.

    Raises:
        TimeoutError: they are not ready in time.
    """
    await node_class(sandbox, kube)
    await asyncio.to_thread(sandbox.apply, pool)
    await until_ready(kube, NODEPOOLS, pool["metadata"]["name"])


async def node_class(sandbox: Sandbox, kube: Kube) -> None:
    """Apply the EC2NodeClass ``default`` and wait until it is ready.

    Raises:
        TimeoutError: it is not ready in time.
    """
    await asyncio.to_thread(sandbox.apply, EXAMPLES / "ec2nodeclass.yaml")
    await until_ready(kube, EC2NODECLASSES, "default")


async def until_ready(kube: Kube, resource: Resource, name: str) -> None:
    """Wait until an object is ready.

    Raises:
        TimeoutError: it is not ready in time.
    """
    async with asyncio.timeout(READY_SECONDS):
        while not await _ready(kube, resource, name):
            await asyncio.sleep(0.2)


async def _ready(kube: Kube, resource: Resource, name: str) -> bool:
    result = await kube.get(resource, name)
    conditions = ((result or {}).get("status") or {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
