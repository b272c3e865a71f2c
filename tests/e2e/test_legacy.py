"""Provisioners and AWSNodeTemplates act as their users wrote them, from `kubectl apply` to their deletion."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest_asyncio
import yaml

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import (
    AWSNODETEMPLATES,
    EC2NODECLASSES,
    NODECLAIMS,
    NODEPOOLS,
    NODES,
    PODS,
    PROVISIONERS,
    Resource,
)
from sandbox.cluster import Sandbox
from sandbox.kubectl import kubectl
from tenon.apis import labels
from tests.e2e.account import user_data
from tests.e2e.pools import WITHIN, condition, leaving
from tests.e2e.worker import Worker
from tests.workflows.waiting import until

SEEDS = Path("examples/seeds")
BECAME = '{range .items[*]}{.kind} {.metadata.name}: {.status.conditions[?(@.type=="Converted")].message}{"\\n"}{end}'
"""As docs/migrate.md asks what each old object has become."""
MAX_PODS = 11
STARTUP = {"key": "example.com/agent-not-ready", "effect": "NoSchedule"}
Object = dict[str, Any]


class User:
    """Somebody who has manifests and `kubectl`."""

    def __init__(self, sandbox: Sandbox, kube: Kube) -> None:
        self.sandbox, self.kube = sandbox, kube

    async def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return await asyncio.to_thread(kubectl, self.sandbox.kubeconfig, *arguments, stdin=stdin)

    async def apply(self, *documents: Object) -> None:
        await self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))

    async def edit(self, kind: str, name: str, spec: Object) -> None:
        await self.kubectl("patch", kind, name, "--type=merge", "-p", json.dumps({"spec": spec}))

    async def condition(self, resource: Resource, name: str, kind: str, status: str) -> Object:
        """Wait until a condition of an object says this."""
        manifest: Object = {}

        async def so() -> bool:
            manifest.clear()
            manifest.update(condition(await self.kube.get(resource, name), kind))
            return manifest.get("status") == status

        await until(so)
        return manifest

    async def running(self, namespace: str, count: int) -> list[Object]:
        """Wait until so many pods run."""
        manifests: list[Object] = []

        async def run() -> bool:
            manifests[:] = [pod for pod in await self.kube.list(PODS, namespace=namespace) if not leaving(pod)]
            return len(manifests) == count and all(pod["status"]["phase"] == "Running" for pod in manifests)

        await until(run, within=WITHIN)
        return manifests

    async def starts(self, node: Object, name: str) -> None:
        """Wait until a pod runs on this node."""

        async def runs() -> bool:
            pod = await self.kube.get(PODS, name, "default") or {}
            return (pod["status"]["phase"], pod["spec"].get("nodeName")) == ("Running", node["metadata"]["name"])

        await until(runs, within=WITHIN)

    async def one_node(self, provisioner: str) -> Object:
        """Wait until a Provisioner has its only node, registered; the node."""
        manifests: list[Object] = []

        async def joined() -> bool:
            manifests[:] = await self.nodes(provisioner)
            return len(manifests) == 1 and manifests[0]["metadata"]["labels"].get(labels.REGISTERED) == "true"

        await until(joined, within=WITHIN)
        return manifests[0]

    async def nodes(self, provisioner: str) -> list[Object]:
        return await self.kube.list(NODES, label_selector=f"{labels.PROVISIONER}={provisioner}")

    async def settled(self, provisioner: str) -> None:
        """Wait until no node of a Provisioner has a startup cordon: one that starts is not empty yet."""

        async def open_all() -> bool:
            nodes = await self.nodes(provisioner)
            return all(labels.STARTUP_CORDON not in (node["metadata"].get("annotations") or {}) for node in nodes)

        await until(open_all)

    async def gone(self, resource: Resource, name: str) -> None:
        async def no_more() -> bool:
            return await self.kube.get(resource, name) is None

        await until(no_more)

    async def without_nodes(self, pool: str) -> None:
        """Wait until a pool has no NodeClaim, and EC2 no instance of it."""

        async def none() -> bool:
            if await self.kube.list(NODECLAIMS, label_selector=f"{labels.NODEPOOL}={pool}"):
                return False
            mine = [i for i in self.sandbox.ec2().instances() if i["tags"].get(labels.TAG_NODEPOOL) == pool]
            return all(instance["state"] == "terminated" for instance in mine)

        await until(none)


@pytest_asyncio.fixture(loop_scope="session")
async def user(worker: Worker, sandbox: Sandbox, kube: Kube) -> AsyncIterator[User]:
    """Somebody who cleans up in the end."""
    user = User(sandbox, kube)
    yield user
    await user.kubectl("delete", "namespace", "test-app", "--ignore-not-found", "--wait=false")
    await user.kubectl("delete", "job/nightly", "pod/chooser", "--ignore-not-found", "--force", "--grace-period=0")
    await user.kubectl("delete", "pod", "anywhere", "chosen", "--ignore-not-found", "--force", "--grace-period=0")
    await user.kubectl("delete", "provisioners,awsnodetemplates", "--all")
    await user.kubectl("delete", "nodepool", "default", "--ignore-not-found")
    for pool in ("default", "test-karpenter", "heavy", "light"):
        await user.without_nodes(pool)


def seed(name: str, *kinds: str) -> dict[str, Object]:
    """The manifests of an article, by kind."""
    documents = yaml.safe_load_all((SEEDS / name).read_text())
    return {document["kind"]: document for document in documents if document["kind"] in kinds}


def template(sandbox: Sandbox, name: str) -> Object:
    """An AWSNodeTemplate for the sandbox's account."""
    discovery = {"karpenter.sh/discovery": sandbox.cluster_name}
    return {
        "apiVersion": "karpenter.k8s.aws/v1alpha1",
        "kind": "AWSNodeTemplate",
        "metadata": {"name": name},
        "spec": {"subnetSelector": discovery, "securityGroupSelector": discovery, "amiFamily": "Bottlerocket"},
    }


def provisioner(name: str, **spec: Any) -> Object:
    """A Provisioner for small nodes that only our own pods tolerate, launched as AWSNodeTemplate `old` says."""
    own = {"key": "example.com/old", "effect": "NoSchedule"}
    cpus = {"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["2"]}
    return {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "metadata": {"name": name},
        "spec": {"providerRef": {"name": "old"}, "taints": [own], "requirements": [cpus], **spec},
    }


def pod(name: str, **selector: str) -> Object:
    """A pod for the nodes of `provisioner`."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "nodeSelector": selector,
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"key": "example.com/old", "operator": "Exists"}],
            "containers": [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1"}}}],
        },
    }


async def test_a_first_provisioner_launches_labelled_nodes_and_empty_ones_go(user: User, sandbox: Sandbox) -> None:
    """LEG-01..04, LEG-07, LEG-10, LEG-12, LEG-14, LEG-30..41, ANN-11: the article's manifests as they stand."""
    article = seed("000-first-look.yaml", "Provisioner", "Job")
    await user.apply(*article.values(), template(sandbox, "default"))
    await user.condition(PROVISIONERS, "default", "Active", "True")
    await user.condition(AWSNODETEMPLATES, "default", "Active", "True")
    result = (await user.kube.get(AWSNODETEMPLATES, "default") or {})["status"]
    assert result["subnets"]
    assert result["securityGroups"]
    assert result["amis"]
    assert "NodePool default" in await user.kubectl("describe", "provisioner", "default")

    batch = await user.running("default", 3)
    nodes = await user.nodes("default")
    assert {pod["spec"]["nodeName"] for pod in batch} == {node["metadata"]["name"] for node in nodes}
    for node in nodes:
        actual_value = node["metadata"]["labels"]
        assert (actual_value["billing-team"], actual_value[labels.NODEPOOL]) == ("my-team", "default")
        assert actual_value[labels.INSTANCE_TYPE] in ("m5.large", "m5.2xlarge")
        assert actual_value[labels.ZONE] in ("us-west-2a", "us-west-2b")
        assert "example.com/special-taint" in [taint["key"] for taint in node["spec"]["taints"]]

    chooser = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "chooser"},
        "spec": {
            "nodeSelector": {labels.PROVISIONER: "default"},
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1500m"}}}],
        },
    }
    await user.apply(chooser)
    await user.running("default", 4)
    await user.settled("default")
    status = (await user.kube.get(PROVISIONERS, "default") or {})["status"]
    assert status["lastScaleTime"]

    # what stands for it is not edited, the old object is
    await user.edit("nodepool", "default", {"limits": {"cpu": "1"}})
    await user.edit("provisioner", "default", {"ttlSecondsAfterEmpty": 1})

    async def in_step() -> bool:
        pool = await user.kube.get(NODEPOOLS, "default") or {}
        spec = pool["spec"]
        return (spec["limits"].get("cpu"), spec["disruption"]["consolidateAfter"]) == ("1000", "1s")

    await until(in_step)
    await user.kubectl("delete", "job/nightly", "pod/chooser", "--force", "--grace-period=0")
    await user.without_nodes("default")

    # and who moves on to v1 keeps what stood for it
    await user.kubectl("delete", "provisioner", "default", "--cascade=orphan")
    pool = await user.kube.get(NODEPOOLS, "default") or {}
    assert not pool["metadata"].get("ownerReferences")
    assert not leaving(pool)


async def test_a_deleted_provisioner_removes_its_nodes_its_pool_and_its_inline_class(
    user: User, sandbox: Sandbox
) -> None:
    """LEG-06, LEG-35: the load test's manifests, in the sandbox's region; then the article's own way to clean up.

    LEG-52: what is launched has the tags of the settings.
    """
    article = seed("003-web-load.yaml", "Namespace", "Deployment", "Provisioner")
    spec = article["Provisioner"]["spec"]
    for term in spec["requirements"]:
        if term["key"] == labels.ZONE:
            term["values"] = ["us-west-2a", "us-west-2c"]
    discovery = {"karpenter.sh/discovery": sandbox.cluster_name}
    spec["provider"] |= {
        "subnetSelector": discovery,
        "securityGroupSelector": discovery,
        "instanceProfile": f"KarpenterNodeRole-{sandbox.cluster_name}",
    }
    article["Deployment"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 0
    await user.apply(*article.values())
    pods = await user.running("test-app", 10)
    (node,) = await user.nodes("test-karpenter")
    assert {pod["spec"]["nodeName"] for pod in pods} == {node["metadata"]["name"]}
    assert node["metadata"]["labels"][labels.INSTANCE_TYPE] == "m5.large"
    (claim,) = await user.kube.list(NODECLAIMS, label_selector=f"{labels.NODEPOOL}=test-karpenter")
    assert claim["spec"]["expireAfter"] == "15m"
    (instance,) = [
        i for i in sandbox.ec2().instances() if i["tags"].get(labels.TAG_NODECLAIM) == claim["metadata"]["name"]
    ]
    assert instance["tags"]["cost-center"] == "1234"
    node_class = await user.kube.get(EC2NODECLASSES, "test-karpenter") or {}
    assert labels.NODECLASS_FINALIZER in node_class["metadata"]["finalizers"]

    await user.kubectl("delete", "provisioner", "test-karpenter")
    await user.without_nodes("test-karpenter")
    await user.gone(NODEPOOLS, "test-karpenter")
    await user.gone(EC2NODECLASSES, "test-karpenter")
    assert await user.nodes("test-karpenter") == []


async def test_what_provisioners_say_of_their_nodes_holds_for_them(user: User, sandbox: Sandbox) -> None:
    """LEG-03, LEG-05, LEG-07, LEG-09, LEG-11: startup taints, kubelet, weight, and both ways to end empty nodes."""
    kubelet = {"maxPods": MAX_PODS, "systemReserved": {"cpu": "300m"}, "clusterDNS": ["10.0.1.100"]}
    first = provisioner("heavy", weight=50, startupTaints=[STARTUP], kubeletConfiguration=kubelet)
    first["spec"]["ttlSecondsAfterEmpty"] = 1
    second = provisioner("light", weight=1, consolidation={"enabled": True})
    await user.apply(template(sandbox, "old"), first, second)
    for name in ("heavy", "light"):
        await user.condition(PROVISIONERS, name, "Active", "True")
        await user.condition(NODEPOOLS, name, "Ready", "True")

    became = await user.kubectl("get", "provisioners,awsnodetemplates", "-o", f"jsonpath={BECAME}")
    assert "Provisioner heavy: it is NodePool heavy" in became
    assert "AWSNodeTemplate old: it is EC2NodeClass old" in became

    await user.apply(pod("anywhere"), pod("chosen", **{labels.PROVISIONER: "light"}))
    heavy, light = await user.one_node("heavy"), await user.one_node("light")
    assert [taint["key"] for taint in heavy["spec"]["taints"] if taint["key"] == STARTUP["key"]]
    await user.starts(light, "chosen")
    waiting = await user.kube.get(PODS, "anywhere", "default") or {}
    assert waiting["status"]["phase"] == "Pending", "it does not tolerate what the node starts with"

    await user.kubectl("taint", "nodes", heavy["metadata"]["name"], f"{STARTUP['key']}-")
    await user.starts(heavy, "anywhere")
    (claim,) = await user.kube.list(NODECLAIMS, label_selector=f"{labels.NODEPOOL}=heavy")
    assert claim["status"]["capacity"]["pods"] == heavy["status"]["capacity"]["pods"] == str(MAX_PODS)
    events = await asyncio.to_thread(user_data, sandbox, claim["status"]["providerID"].rsplit("/", 1)[1])
    for setting in ("max-pods = 11", "10.0.1.100", "300m"):
        assert setting in events
    await user.settled("heavy")
    await user.settled("light")
    await user.kubectl("delete", "pod", "anywhere", "chosen", "--force", "--grace-period=0")
    await asyncio.gather(user.without_nodes("heavy"), user.without_nodes("light"))


async def test_a_nodepool_of_another_is_left_alone(user: User, sandbox: Sandbox, new_pool: Callable[..., Any]) -> None:
    """The Provisioner says whose name it wants, and an event tells it to those who look there."""
    async with new_pool() as theirs:
        before = await theirs.read()
        names_by_kind = {
            "apiVersion": "karpenter.sh/v1alpha5",
            "kind": "Provisioner",
            "metadata": {"name": theirs.name},
            "spec": {"providerRef": {"name": theirs.name}},
        }
        await user.apply(names_by_kind)
        condition = await user.condition(PROVISIONERS, theirs.name, "Active", "False")
        assert f"NodePool {theirs.name} exists and was not created from it" in condition["message"]
        await theirs.seen(theirs.name, "NameTaken", f"NodePool {theirs.name}")
        assert (await theirs.read())["spec"] == before["spec"]
        await user.kubectl("delete", "provisioner", theirs.name)
        assert not leaving(await theirs.read())
