"""Manifests of v1beta1 buy nodes: a real API server converts them by the worker's webhook (V1B-01, V1B-04, V1B-15)."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import EC2NODECLASSES, NODECLAIMS, NODEPOOLS
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tests.e2e.account import user_data
from tests.e2e.pools import KEY, SMALL, Pool, clear
from tests.e2e.worker import Worker
from tests.workflows.waiting import until

MAX_PODS = 11


@asynccontextmanager
async def old_pool(kube: Kube, sandbox: Sandbox) -> AsyncIterator[Pool]:
    """A NodePool and an EC2NodeClass of v1beta1, gone in the end."""
    pool = Pool(kube, sandbox, f"old-{uuid.uuid4().hex[:6]}")
    node_class = pool.node_class()
    del node_class["spec"]["amiSelectorTerms"]
    node_class["spec"]["amiFamily"] = "AL2023"
    body = pool.node_pool(consolidate_after="1s", requirements=SMALL, template={}, budgets=[{"nodes": "100%"}])
    body["spec"]["disruption"]["expireAfter"] = "24h"
    spec = body["spec"]["template"]["spec"]
    spec["nodeClassRef"] = {"name": pool.name}
    spec["kubelet"] = {"maxPods": MAX_PODS}

    async def created() -> bool:
        try:
            await kube.create(replace(EC2NODECLASSES, version="v1beta1"), node_class)
        except ApiError:  # the worker that has just begun to lead tells the API server of itself first
            return False
        return True

    await until(created)
    try:
        await kube.create(replace(NODEPOOLS, version="v1beta1"), body)
        yield pool
    finally:
        await clear(pool)


async def test_v1b04_a_pool_of_v1beta1_buys_nodes_with_its_own_kubelet_settings(
    worker: Worker, kube: Kube, sandbox: Sandbox
) -> None:
    """The settings stand on the NodePool alone, and reach the figures of the plan and the user data."""
    async with old_pool(kube, sandbox) as pool:
        await pool.deploy(1)
        await pool.running(1)
        (claim,) = await pool.settled(1)
        assert claim["spec"]["expireAfter"] == "24h"
        assert labels.V1BETA1_KUBELET in claim["metadata"]["annotations"]
        assert claim["status"]["capacity"]["pods"] == str(MAX_PODS)
        (instance,) = pool.instances()
        assert f'"maxPods": {MAX_PODS}' in user_data(sandbox, instance["id"])
        old = await kube.get(replace(NODECLAIMS, version="v1beta1"), claim["metadata"]["name"])
        assert old is not None
        assert old["status"]["providerID"].endswith(instance["id"])
        (node,) = await pool.nodes()
        assert node["metadata"]["labels"][KEY] == pool.name
