"""The manifests of a user of Karpenter 1.15, applied as they are, give a pod its node (N15-641, N15-642)."""

from __future__ import annotations

import asyncio

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import DEPLOYMENTS, EC2NODECLASSES, NODEPOOLS, PODS
from sandbox.cluster import Sandbox
from tests.deploy.user_of_karpenter_1_15 import manifests
from tests.e2e.pools import NAMESPACE, WITHIN, condition
from tests.e2e.worker import Worker
from tests.workflows.waiting import until

NAME = "orders"


async def test_n15_641_n15_642_a_pod_gets_a_node_with_every_field_of_1_15(
    worker: Worker, sandbox: Sandbox, kube: Kube
) -> None:
    text = manifests("sandbox").replace("discovery: sandbox", f"discovery: {sandbox.cluster_name}")
    applied = await asyncio.to_thread(sandbox.kubectl, "apply", "--validate=strict", "-f", "-", stdin=text)
    try:
        assert applied.count("created") == 3
        nodes: list[str] = []

        async def bound() -> bool:
            pods = await kube.list(PODS, namespace=NAMESPACE, label_selector=f"app={NAME}")
            nodes[:] = [pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")]
            return bool(nodes)

        await until(bound, within=WITHIN)
        node_class = await kube.get(EC2NODECLASSES, NAME)
        pool = await kube.get(NODEPOOLS, NAME)
        assert condition(node_class, "ValidationSucceeded")["status"] == "True"
        assert condition(pool, "Ready")["status"] == "True"

        broken = {"spec": {"kubelet": {"topologyManagerPolcy": "restricted"}}}
        await kube.patch(EC2NODECLASSES, NAME, broken)

        async def refused() -> bool:
            return condition(await kube.get(EC2NODECLASSES, NAME), "ValidationSucceeded").get("status") == "False"

        await until(refused, within=WITHIN)
        reported = condition(await kube.get(EC2NODECLASSES, NAME), "ValidationSucceeded")
        assert reported["reason"] == "InvalidKubeletConfiguration"
        assert "did you mean topologyManagerPolicy?" in reported["message"]
    finally:
        deleted = ("delete", "--ignore-not-found", "--wait=false", "-f", "-")
        await asyncio.to_thread(sandbox.kubectl, *deleted, stdin=text)

        async def gone() -> bool:
            remainder = [await kube.get(resource, NAME) for resource in (NODEPOOLS, EC2NODECLASSES)]
            return not any([*remainder, await kube.get(DEPLOYMENTS, NAME, NAMESPACE)])

        await until(gone, within=WITHIN)
