"""The nodes of a group in Kubernetes: what runs on them, cordons and evictions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODES, PODS
from cli.switching.deployments import APP
from tenon.apis.json_object import JsonObject, field_at
from tenon.kube import object_json
from tenon.kube.pod_decode import pod_of
from tenon.kube.records import PodRecord
from tenon.migration.group_draining import GroupNode
from tenon.node.drain import ActionKind, current_wave, decide, wave

GROUP_LABELS = ("eks.amazonaws.com/nodegroup", "alpha.eksctl.io/nodegroup-name")
"""Labels that only nodes of a group have, so that pods that select them fit on none of Tenon's."""


@dataclass(frozen=True, slots=True)
class NodePods:
    """A node of the group, with the pods that a drain waits for."""

    node: GroupNode
    pods: Sequence[PodRecord]


async def read_nodes(kube: Kube, instances: Collection[str]) -> list[NodePods]:
    """Return the nodes of these instances."""
    group = [node for node in await kube.list(NODES) if _instance(node) in instances]
    nodes = []
    for node in group:
        name = str(node["metadata"]["name"])
        bodies = await kube.list(PODS, field_selector=f"spec.nodeName={name}")
        pods = map(pod_of, bodies)
        # A pod that tolerates every taint leaves too: its node ends.
        waited = [pod for pod in pods if not (pod.terminal or pod.mirror or pod.daemon)]
        is_tenons = any(object_json.labels(body).get(APP) == "tenon" for body in bodies)
        cordoned = bool((node.get("spec") or {}).get("unschedulable"))
        nodes.append(NodePods(GroupNode(name, _instance(node), cordoned, len(waited), is_tenons), waited))
    return nodes


def _instance(node: JsonObject) -> str:
    return str(field_at(node, "spec", "providerID") or "").rpartition("/")[2]


async def read_waiting(kube: Kube) -> list[PodRecord]:
    """Return the pods that have no node."""
    return [pod_of(body) for body in await kube.list(PODS, field_selector="spec.nodeName=")]


async def cordon(kube: Kube, name: str) -> None:
    """Let no pod be bound to the node any more."""
    await kube.patch(NODES, name, {"spec": {"unschedulable": True}})


async def evict(kube: Kube, pods: Sequence[PodRecord], now: datetime) -> list[str]:
    """Evict the pods whose turn it is, and return what holds the others, a sentence each.

    Evictions respect PodDisruptionBudgets, and do-not-disrupt is respected as in a drain of Tenon's own nodes.
    """
    turn = current_wave(pods)
    blocked = []
    for pod in pods:
        action = decide(pod, now, turn=wave(pod) == turn, force_at=None, force=False)
        if action.kind is ActionKind.AWAIT and action.blocked is not None:
            blocked.append(f"Pod {pod.key} {action.blocked.why}")
        elif action.kind is ActionKind.EVICT:
            namespace, _, name = pod.key.partition("/")
            answer = await kube.evict(namespace, name, uid=pod.pod.uid)
            if answer.outcome in ("blocked", "error"):
                blocked.append(f"Pod {pod.key} is not evicted: {answer.message}")
    return blocked


async def bound_to_group(kube: Kube, nodes: Collection[str]) -> list[str]:
    """Pods on these nodes that select a label which only nodes of a group have."""
    pods = []
    for name in nodes:
        for body in await kube.list(PODS, field_selector=f"spec.nodeName={name}"):
            if set(GROUP_LABELS) & set(_selected(body)):
                metadata = body["metadata"]
                pods.append(f"{metadata['namespace']}/{metadata['name']}")
    return sorted(pods)


def _selected(body: JsonObject) -> list[str]:
    spec = body.get("spec") or {}
    keys = list(spec.get("nodeSelector") or ())
    required = field_at(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        keys += [str(expression.get("key")) for expression in term.get("matchExpressions") or ()]
    return keys
