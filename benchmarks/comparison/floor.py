"""The floor: the burst without an autoscaler, which is what the rest of the sandbox costs.

Pods are refused first, as an autoscaler needs to see them. Then a script creates nodes, and kube-scheduler binds the
pods.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from activities.kubernetes.bounded_concurrency import bounded
from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODES
from benchmarks.cluster import CREATORS, Object
from benchmarks.load_run import WITHIN
from benchmarks.milestones import Milestones
from sandbox.ec2.region import REGION
from sandbox.kwok import KUBELET_ANNOTATION, NODE_ANNOTATION

PODS_FOR_NODE = 1000 / 150
RESOURCES = {"cpu": "20", "memory": "160Gi", "ephemeral-storage": "20Gi", "pods": "110"}
"""More than a node needs, so that kube-scheduler places every pod, wherever it begins."""


def nodes(pods: int) -> Iterator[Object]:
    """Yield nodes for so many pods of the burst: 150 for 1,000."""
    for number in range(round(pods / PODS_FOR_NODE) or 1):
        name = f"floor-{number}"
        yield {
            "metadata": {
                "name": name,
                "annotations": {NODE_ANNOTATION: "fake", KUBELET_ANNOTATION: "ready"},
                "labels": {
                    "kubernetes.io/hostname": name,
                    "kubernetes.io/arch": "amd64",
                    "kubernetes.io/os": "linux",
                    "topology.kubernetes.io/region": REGION,
                    "topology.kubernetes.io/zone": f"{REGION}{'abc'[number % 3]}",
                },
            },
            "status": {"capacity": RESOURCES, "allocatable": RESOURCES},
        }


async def create_nodes_when_refused(kube: Kube, pods: Milestones, count: int) -> None:
    """Wait until kube-scheduler has refused all pods, then create the nodes."""
    with contextlib.suppress(TimeoutError):  # the table shows how many ran
        await pods.until("refused by kube-scheduler", count, WITHIN)

    async def create(body: Object) -> None:
        await kube.create(NODES, body)

    await bounded(nodes(count), CREATORS, create)
