"""The model's choice of a node is kube-scheduler's: each pod of a growing load comes where the model says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import DEPLOYMENTS, NODES, PODS
from sandbox.cluster import Sandbox
from sandbox.kwok import KUBELET_ANNOTATION, NODE_ANNOTATION
from tenon.apis import labels
from tenon.apis.json_object import JsonObject
from tenon.kube.conditions import is_true
from tenon.resources import parse_resources
from tenon.scheduling.model import Node
from tenon.shadow.cluster import ModelCluster
from tenon.shadow.kube_scheduling import Rooms
from tenon.shadow.nodes import ModelNode
from tests.sandbox_clients import administrator
from tests.tenon.shadow.models import NOW, live
from tests.workflows.waiting import until

pytestmark = pytest.mark.integration

LABEL = "scheduling.example.com/node"
SHAPES = {
    "small": ("4", "16Gi", "us-west-2a"),
    "busy": ("8", "16Gi", "us-west-2a"),
    "large": ("16", "32Gi", "us-west-2b"),
    "narrow": ("2", "16Gi", "us-west-2b"),
    "wide": ("8", "64Gi", "us-west-2c"),
}
"""CPU, memory and zone of the nodes, by name."""
LOADS = {"web": ("500m", "1Gi"), "cache": ("250m", "4Gi"), "api": ("1", "2Gi")}
"""What a pod of each Deployment requests."""
ORDER = (
    "web",
    "web",
    "cache",
    "api",
    "web",
    "cache",
    "cache",
    "api",
    "api",
    "web",
    "web",
    "cache",
    "api",
    "web",
    "web",
)
"""Whose pod comes next."""


def node_object(name: str) -> JsonObject:
    cpu, memory, zone = SHAPES[name]
    resources = {"cpu": cpu, "memory": memory, "pods": "30", "ephemeral-storage": "20Gi"}
    return {
        "metadata": {
            "name": name,
            "annotations": {NODE_ANNOTATION: "fake", KUBELET_ANNOTATION: "ready"},
            "labels": {LABEL: "true", labels.HOSTNAME: name, labels.ZONE: zone, labels.REGION: zone[:-1]},
        },
        "spec": {"taints": [{"key": LABEL, "effect": "NoSchedule"}]},
        "status": {"capacity": resources, "allocatable": resources},
    }


def deployment(name: str) -> JsonObject:
    cpu, memory = LOADS[name]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "terminationGracePeriodSeconds": 0,
                    "nodeSelector": {LABEL: "true"},
                    "tolerations": [{"key": LABEL, "operator": "Exists"}],
                    "containers": [
                        {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
                    ],
                },
            },
        },
    }


def model_node(name: str) -> ModelNode:
    cpu, memory, zone = SHAPES[name]
    allocatable = parse_resources({"cpu": cpu, "memory": memory, "pods": "30", "ephemeral-storage": "20Gi"})
    base = Node(name, {labels.ZONE: zone}, (), allocatable, {})
    return ModelNode(name, "default", base, created=NOW, ready=NOW, version="", quiet=NOW)


async def bound_pods(kube: Kube, name: str) -> dict[str, str]:
    pods = await kube.list(PODS, namespace="default", label_selector=f"app={name}")
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}


async def add_one(kube: Kube, name: str, replicas: int) -> dict[str, str]:
    """Let a Deployment have one pod more. Returns the nodes of its pods once all of them have one."""
    await kube.patch(DEPLOYMENTS, name, {"spec": {"replicas": replicas}}, namespace="default")

    async def are_bound() -> bool:
        return len(await bound_pods(kube, name)) == replicas

    await until(are_bound)
    return await bound_pods(kube, name)


async def test_each_pod_of_a_growing_load_comes_to_a_node_with_the_best_score(sandbox: Sandbox) -> None:
    """The model knows where the pods before it are. Several nodes may be the best, and kube-scheduler draws one.

    A bound pod gets the labels by which the model must not tell it from its successor.
    """
    model = ModelCluster({name: model_node(name) for name in SHAPES})
    where: dict[str, dict[str, str]] = {name: {} for name in LOADS}
    choices = []
    async with administrator(sandbox) as kube:
        for name in SHAPES:
            await kube.create(NODES, node_object(name))
        for name in LOADS:
            await kube.create(DEPLOYMENTS, deployment(name), namespace="default")
        try:

            async def all_are_ready() -> bool:
                nodes = await kube.list(NODES, label_selector=f"{LABEL}=true")
                return all(is_true(node, "Ready") and len(node["spec"]["taints"]) == 1 for node in nodes)

            await until(all_are_ready)
            for number, name in enumerate(ORDER):
                cpu, memory = LOADS[name]
                next_pod = live(f"{name}-{number}", cpu=cpu, owner=f"Deployment/{name}")
                requests = parse_resources({"cpu": cpu, "memory": memory, "pods": "1"})
                next_pod = replace(next_pod, pod=replace(next_pod.pod, requests=requests))
                model.add_pod(next_pod, NOW)
                pod = model.pods[next_pod.uid]
                best = Rooms(model, list(model.nodes.values()), [pod], NOW).best_nodes(pod)
                bound = await add_one(kube, name, len(where[name]) + 1)
                (new_name,) = bound.keys() - where[name].keys()
                where[name] = bound
                model.place(next_pod.uid, bound[new_name], NOW)
                choices.append((name, bound[new_name], best))
            pods = await kube.list(PODS, namespace="default", label_selector=f"app={ORDER[0]}")
            copied = {key for pod in pods for key in pod["metadata"]["labels"]} - {"app", "pod-template-hash"}
        finally:
            for name in LOADS:
                await kube.delete(DEPLOYMENTS, name, namespace="default")
            for name in SHAPES:
                await kube.delete(NODES, name)
    assert [choice for choice in choices if choice[1] not in choice[2]] == []
    assert copied == labels.COPIED_TO_PODS
    assert sum(len(best) == 1 for _, _, best in choices) > len(ORDER) / 2, "ties prove little"
