"""Finding the Node of a claim, and the pods on it: what every step begins with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODES, PODS
from tenon.lifecycle import registration
from tenon.lifecycle.messages import NodeInput
from tenon.lifecycle.registration import Match

Object = Mapping[str, Any]


async def find_node(kube: Kube, wanted: NodeInput, claim: Object | None) -> Match:
    """The Node whose provider ID is the claim's.

    Names are tried first, and when the name that the claim registered under is borne by no Node, the Node is
    gone: reading every Node for each claim that ends would cost the square of their number.
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
    return registration.match(await kube.list(NODES), provider_id)


async def pods_on(kube: Kube, node_name: str) -> list[dict[str, Any]]:
    """A fresh list of the pods on a node."""
    return await kube.list(PODS, field_selector=f"spec.nodeName={node_name}")
