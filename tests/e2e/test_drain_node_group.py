"""`tenon drain-node-group` on an Auto Scaling group: pods move within their budget, and the group shrinks to 0."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest_asyncio

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODES, PODS
from sandbox.cluster import Sandbox
from sandbox.ec2.authorization import identities
from sandbox.kwok import KUBELET_ANNOTATION, NODE_ANNOTATION
from tenon.kube.conditions import is_true
from tests.e2e.conftest import MakePool, Run
from tests.e2e.pools import KEY, NAMESPACE, SMALL, WITHIN, Object, Pool
from tests.machine_speed import slowness
from tests.workflows.waiting import until

RESOURCES = {"cpu": "2", "memory": "8Gi", "pods": "20", "ephemeral-storage": "20Gi"}
GROUP_NODES = 2


@dataclass
class Group:
    """An Auto Scaling group, and the Nodes of its instances."""

    name: str
    scaling: Any
    kube: Kube

    def describe(self) -> Object:
        groups = self.scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[self.name])["AutoScalingGroups"]
        result: Object = groups[0]
        return result

    async def nodes(self) -> list[Object]:
        return await self.kube.list(NODES, label_selector=f"e2e.example.com/group={self.name}")

    async def take_pods(self) -> bool:
        """Whether its Nodes are Ready, and kube-controller-manager has removed their taints."""
        return all(is_true(node, "Ready") and not node["spec"].get("taints") for node in await self.nodes())

    async def unschedulable(self) -> list[bool]:
        return [bool(node["spec"].get("unschedulable")) for node in await self.nodes()]


def node_of(instance: str, group: str, pool: Pool) -> Object:
    """A Node of the group that pods of the pool fit on."""
    name = f"{group}-{instance[-6:]}"
    return {
        "metadata": {
            "name": name,
            "annotations": {NODE_ANNOTATION: "fake", KUBELET_ANNOTATION: "ready"},
            "labels": {
                KEY: pool.name,
                "e2e.example.com/group": group,
                "kubernetes.io/hostname": name,
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                "topology.kubernetes.io/zone": "us-west-2a",
            },
        },
        "spec": {"providerID": f"aws:///us-west-2a/{instance}"},
        "status": {"capacity": RESOURCES, "allocatable": RESOURCES},
    }


@pytest_asyncio.fixture(loop_scope="session")
async def pool(make_pool: MakePool) -> Pool:
    new_pool: Pool = await make_pool(requirements=SMALL)
    return new_pool


@pytest_asyncio.fixture(loop_scope="session")
async def group(sandbox: Sandbox, kube: Kube, pool: Pool) -> AsyncIterator[Group]:
    """Two instances of an Auto Scaling group, with a Node each."""
    scaling, ec2 = sandbox.aws("autoscaling"), sandbox.aws("ec2")
    name = f"group-{pool.name}"

    def create() -> list[str]:
        image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
        data = {"ImageId": image, "InstanceType": "m5.large"}
        ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data)
        scaling.create_auto_scaling_group(
            AutoScalingGroupName=name,
            MinSize=GROUP_NODES,
            MaxSize=5,
            DesiredCapacity=GROUP_NODES,
            AvailabilityZones=["us-west-2a"],
            LaunchTemplate={"LaunchTemplateName": name, "Version": "$Latest"},
        )
        groups = scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"]
        return [instance["InstanceId"] for instance in groups[0]["Instances"]]

    instances = await asyncio.to_thread(create)
    nodes = [node_of(instance, name, pool) for instance in instances]
    for node in nodes:
        await kube.create(NODES, node)
    new_group = Group(name, scaling, kube)
    await until(new_group.take_pods, within=WITHIN)
    yield new_group
    for node in nodes:
        await kube.delete(NODES, node["metadata"]["name"])
    await asyncio.to_thread(scaling.delete_auto_scaling_group, AutoScalingGroupName=name, ForceDelete=True)
    await asyncio.to_thread(ec2.delete_launch_template, LaunchTemplateName=name)


async def test_the_pods_move_within_their_budget_and_the_group_ends(
    sandbox: Sandbox, pool: Pool, group: Group, kube: Kube, tenon: Run
) -> None:
    """A pod that must not be disrupted holds its node, and the next run goes on where the first one stopped."""
    await pool.deploy(2, cpu="1500m")
    await pool.running(2)
    assert not await pool.claims(), "they run on the group"
    await pool.protect("web", 1)
    (first, _) = await pool.pods("web")
    hold = {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}
    await kube.patch(PODS, first["metadata"]["name"], hold, namespace=NAMESPACE)
    administrator = {
        "AWS_ACCESS_KEY_ID": identities.ADMINISTRATOR_KEY,
        "AWS_SECRET_ACCESS_KEY": identities.SECRET,
        "AWS_ENDPOINT_URL": sandbox.ec2_endpoint,
    }

    def drain(*arguments: str) -> Any:
        return tenon("drain-node-group", group.name, "--region", sandbox.region, *arguments, **administrator)

    planned = await asyncio.to_thread(drain, "--dry-run")
    assert planned.returncode == 0, planned.stderr
    assert "2 nodes leave, 1 at a time, with 2 pods" in planned.stdout
    assert await group.unschedulable() == [False, False]
    refused = await asyncio.to_thread(drain)
    assert refused.returncode == 2
    assert "add --yes" in refused.stderr

    patience = f"{min(60 * slowness(), 180):.0f}s"  # in which Tenon must buy a node for the other pod
    stopped = await asyncio.to_thread(drain, "--yes", "--at-once", "2", "--timeout", patience)
    assert stopped.returncode == 1, stopped.stdout + stopped.stderr
    assert "do-not-disrupt" in stopped.stderr

    async def one_is_left() -> bool:
        """The cloud controller deletes the Node of an instance that ended."""
        return await group.unschedulable() == [True]

    await until(one_is_left, within=WITHIN)
    assert (await asyncio.to_thread(group.describe))["DesiredCapacity"] == 1
    pods = {pod["metadata"]["uid"] for pod in await pool.running(2)}
    assert first["metadata"]["uid"] in pods

    free = {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": None}}}
    await kube.patch(PODS, first["metadata"]["name"], free, namespace=NAMESPACE)
    done = await asyncio.to_thread(drain, "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    described = await asyncio.to_thread(group.describe)
    assert (described["MinSize"], described["DesiredCapacity"]) == (0, 0)

    async def moved() -> bool:
        running = await pool.running(2)
        return not any(pod["spec"]["nodeName"].startswith(group.name) for pod in running)

    await until(moved, within=WITHIN)
    assert await pool.claims(), "Tenon bought nodes for them"
