"""EC2 refuses some instance types of a NodePool: a quota of one group of families, or a policy that denies a type.

Pods of other types, of the other capacity type and of other NodePools get nodes as if nothing were refused.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODEPOOLS
from sandbox.cluster import Sandbox
from sandbox.ec2.authorization.judge import variables
from sandbox.ec2.client import Ec2Admin
from tenon.apis import labels
from tests.e2e.conftest import MakePool
from tests.e2e.pools import KEY, Pool, condition
from tests.faults.conftest import Observe
from tests.workflows.waiting import until

GPU, PLAIN = "g4dn.xlarge", "c5.large"
OTHERS = 12
"""Pods without a GPU, each on a node of its own."""


async def pool_with_gpus(make_pool: MakePool, kube: Kube, *capacity_types: str) -> Pool:
    """A NodePool that sells both types, and no others."""
    pool: Pool = await make_pool(capacity_types=capacity_types)
    body = await pool.read()
    terms = [term for term in body["spec"]["template"]["spec"]["requirements"] if "category" not in term["key"]]
    terms.append({"key": labels.INSTANCE_TYPE, "operator": "In", "values": [GPU, PLAIN]})
    await kube.patch(NODEPOOLS, pool.name, {"spec": {"template": {"spec": {"requirements": terms}}}})
    return pool


async def requested(ec2: Ec2Admin, kind: str) -> bool:
    return any(kind in json.dumps(call) for call in ec2.calls("CreateFleet"))


def wants(pool: Pool, kind: str) -> dict[str, str]:
    return {KEY: pool.name, labels.INSTANCE_TYPE: kind}


async def test_a_pod_over_its_gpu_quota_stops_no_other_pod(
    make_pool: MakePool, kube: Kube, observe: Observe, ec2: Ec2Admin
) -> None:
    """AWS-040: new accounts have a quota of 0 for GPUs."""
    pool = await pool_with_gpus(make_pool, kube, "on-demand")
    async with observe(pool) as observations:
        ec2.quota(GPU, 0)
        await pool.deploy(1, "gpu", nodeSelector=wants(pool, GPU))
        await until(lambda: requested(ec2, GPU))
        await pool.deploy(OTHERS, "web", nodeSelector=wants(pool, PLAIN))
        await pool.running(OTHERS, "web", within=200)
        assert condition(await pool.read(), "NodeLaunchHealthy").get("status") != "False"
        assert [pod for pod in await pool.pods("gpu") if pod["status"]["phase"] == "Running"] == []
        await observations.look()
        await asyncio.gather(pool.scale(0, "gpu"), pool.scale(0, "web"))
        ec2.clear_quotas()


async def test_a_pod_over_its_gpu_quota_goes_to_a_fallback_pool(
    make_pool: MakePool, kube: Kube, observe: Observe, ec2: Ec2Admin
) -> None:
    """The first NodePool sells GPUs on demand only, whose quota is 0. The second one also sells spot."""
    first = await pool_with_gpus(make_pool, kube, "on-demand")
    second = await pool_with_gpus(make_pool, kube, "spot")
    await kube.patch(NODEPOOLS, first.name, {"spec": {"weight": 100}})
    taint = {"key": KEY, "value": first.name, "effect": "NoSchedule"}
    template = {"metadata": {"labels": {KEY: first.name}}, "spec": {"taints": [taint]}}
    await kube.patch(NODEPOOLS, second.name, {"spec": {"template": template}})

    async def ready() -> bool:
        pair = [await first.read(), await second.read()]
        return all(condition(pool, "Ready").get("status") == "True" for pool in pair)

    await until(ready)
    async with observe(first, second) as observations:
        ec2.quota(GPU, 0)
        await first.deploy(1, "gpu", nodeSelector=wants(first, GPU))
        await first.deploy(OTHERS, "web", nodeSelector=wants(first, PLAIN))
        await asyncio.gather(first.running(1, "gpu"), first.running(OTHERS, "web", within=200))
        assert {instance["type"] for instance in second.instances()} >= {GPU}
        assert GPU not in {instance["type"] for instance in first.instances()}
        await observations.look()
        await asyncio.gather(first.scale(0, "gpu"), first.scale(0, "web"))
        ec2.clear_quotas()


async def test_a_spot_quota_of_one_group_of_families_leaves_spot_of_others_on(
    make_pool: MakePool, kube: Kube, observe: Observe, ec2: Ec2Admin
) -> None:
    gpu = await pool_with_gpus(make_pool, kube, "on-demand", "spot")
    plain = await pool_with_gpus(make_pool, kube, "on-demand", "spot")
    async with observe(gpu, plain) as observations:
        ec2.quota(GPU, 0, capacity_type="spot")
        await gpu.deploy(1, "gpu", nodeSelector=wants(gpu, GPU))
        await gpu.running(1, "gpu", within=300)  # plans avoid for three minutes what EC2 refused in an earlier test
        assert {instance["capacity_type"] for instance in gpu.instances()} == {"on-demand"}
        await plain.deploy(3, "web", cpu="1500m", nodeSelector=wants(plain, PLAIN))
        await plain.running(3, "web")
        assert {instance["capacity_type"] for instance in plain.instances()} == {"spot"}
        await observations.look()
        await asyncio.gather(gpu.scale(0, "gpu"), plain.scale(0, "web"))
        ec2.clear_quotas()


@pytest.mark.refuses("ec2:RunInstances")
async def test_a_policy_that_denies_one_type_stops_no_other_type(
    make_pool: MakePool, kube: Kube, observe: Observe, ec2: Ec2Admin, sandbox: Sandbox
) -> None:
    pool = await pool_with_gpus(make_pool, kube, "on-demand")
    async with observe(pool) as observations:
        ec2.policy(_denying(sandbox, GPU))
        ec2.clear_calls()  # of earlier tests
        try:
            await pool.deploy(1, "large", nodeSelector=wants(pool, GPU))
            await until(lambda: requested(ec2, GPU))
            await pool.deploy(6, "web", nodeSelector=wants(pool, PLAIN))
            await pool.running(6, "web")
        finally:
            ec2.policy(None)
        await observations.look()
        await asyncio.gather(pool.scale(0, "large"), pool.scale(0, "web"))


def _denying(sandbox: Sandbox, kind: str) -> dict[str, Any]:
    """The worker's policy, and an organization's that denies an instance type."""
    text = Path("deploy/iam/controller-policy.json").read_text()
    for name, value in variables(sandbox.cluster_name, "us-west-2").items():
        text = text.replace("${" + name + "}", value)
    document: dict[str, Any] = json.loads(text)
    document["Statement"].append(
        {
            "Sid": "Organization",
            "Effect": "Deny",
            "Action": "ec2:RunInstances",
            "Resource": "arn:aws:ec2:us-west-2:*:instance/*",
            "Condition": {"StringEquals": {"ec2:InstanceType": kind}},
        }
    )
    return document
