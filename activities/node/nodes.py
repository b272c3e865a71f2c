"""Finds the Node of a claim and the pods on it. Every step starts with this."""

from __future__ import annotations

import msgspec

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODES, PDBS, PODS
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.pod_decode import pod_record
from tenon.kube.pod_disruption_budgets import PdbObject, PodDisruptionBudget, pdb_record, selecting
from tenon.kube.records import PodRecord
from tenon.kube.structs import PodObject
from tenon.messages.node_steps import NodeInput
from tenon.node import registration
from tenon.node.registration import Match


class _Metadata(msgspec.Struct):
    name: str


class _Spec(msgspec.Struct):
    provider_id: str = msgspec.field(default="", name="providerID")


class NodeIdentity(msgspec.Struct):
    """The fields of a Node that identify its claim. `find_node` lists all Nodes, so it keeps only these in memory."""

    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)


async def find_node(kube: Kube, node_input: NodeInput, claim: ClaimRecord | None) -> Match:
    """Find the Node with the claim's provider ID.

    The search tries known names first: the poke of the NodeClaim controller has the name of the Node that joined. If no
    Node has the name that the claim registered under, the Node is gone. All Nodes are listed only if no name is known,
    and then concurrent callers share the list.
    """
    registered_as = claim.node_name if claim is not None else ""
    provider_id = node_input.provider_id or (claim.provider_id if claim is not None else "")
    if not provider_id:
        return registration.match((), "")
    node_names = [name for name in dict.fromkeys((node_input.node_name, registered_as)) if name]
    nodes_by_name = [await kube.get(NODES, name) for name in node_names]
    for node in nodes_by_name:
        if node is not None and (node.get("spec") or {}).get("providerID") == provider_id:
            return Match(node=node)
    if registered_as and all(node is None for node in nodes_by_name):
        return registration.match((), provider_id)
    everything = await kube.shared_list(NODES, NodeIdentity)
    names = [listed_node.metadata.name for listed_node in everything if listed_node.spec.provider_id == provider_id]
    nodes = [node for name in names if (node := await kube.get(NODES, name)) is not None]
    return registration.match(nodes, provider_id)


async def pods_on(kube: Kube, node_name: str, *, latest: bool = True) -> list[PodRecord]:
    """The pods on a node, by name. Reads one page, so that the API server uses its index of pods by Node.

    Without ``latest``, the API server answers from its cache, so the answer may be some moments old. Never bind a pod
    or terminate an instance based on such an answer.
    """
    version = "" if latest else "0"
    selector = f"spec.nodeName={node_name}"
    pods = await kube.list_as(PODS, PodObject, field_selector=selector, resource_version=version)
    return sorted(map(pod_record, pods), key=lambda pod: pod.key)


class Budgets:
    """Reads PodDisruptionBudgets once for each namespace."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._by_namespace: dict[str, list[PodDisruptionBudget]] = {}

    async def selecting(self, pod: PodRecord) -> list[PodDisruptionBudget]:
        """Return the budgets that select the pod."""
        namespace = pod.pod.namespace
        if namespace not in self._by_namespace:
            budgets = await self._kube.list_as(PDBS, PdbObject, namespace=namespace)
            self._by_namespace[namespace] = [pdb_record(budget).value for budget in budgets]
        return selecting(pod.pod, self._by_namespace[namespace])
