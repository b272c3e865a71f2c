"""Finding the Node of a claim, and the pods on it: what every step begins with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODES, PODS
from tenon.lifecycle import registration
from tenon.lifecycle.messages import NodeInput
from tenon.lifecycle.registration import Match

Object = Mapping[str, Any]


class _Named(msgspec.Struct):
    name: str


class _Provided(msgspec.Struct):
    provider_id: str = msgspec.field(default="", name="providerID")


class NodeIdentity(msgspec.Struct):
    """What of a Node says whose it is."""

    metadata: _Named
    spec: _Provided = msgspec.field(default_factory=_Provided)


async def find_node(kube: Kube, wanted: NodeInput, claim: Object | None) -> Match:
    """The Node whose provider ID is the claim's.

    Names are tried first: the bridge's poke says the name of the Node that joined. When the name that the claim
    registered under is borne by no Node, the Node is gone. Only for a claim whose Node nobody named are all Nodes
    listed, once for all such claims of a moment.
    """
    status = (claim or {}).get("status") or {}
    provider_id = wanted.provider_id or status.get("providerID") or ""
    if not provider_id:
        return registration.match((), "")
    named = [name for name in dict.fromkeys((wanted.node_name, status.get("nodeName"))) if name]
    found = [await kube.get(NODES, name) for name in named]
    for node in found:
        if node is not None and (node.get("spec") or {}).get("providerID") == provider_id:
            return Match(node=node)
    if status.get("nodeName") and all(node is None for node in found):
        return registration.match((), provider_id)
    everything = await kube.shared_list(NODES, NodeIdentity)
    names = [one.metadata.name for one in everything if one.spec.provider_id == provider_id]
    nodes = [node for name in names if (node := await kube.get(NODES, name)) is not None]
    return registration.match(nodes, provider_id)


async def pods_on(kube: Kube, node_name: str, *, latest: bool = True) -> list[dict[str, Any]]:
    """The pods on a node, by the API server's index of pods by Node, which a list in pages would not use.

    Without ``latest`` the API server answers without asking its storage, and the answer may be some moments old. No pod
    is bound and no instance ended by such an answer.
    """
    version = "" if latest else "0"
    return await kube.list(PODS, field_selector=f"spec.nodeName={node_name}", limit=0, resource_version=version)
