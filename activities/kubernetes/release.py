"""The step "release node": with the instance gone, Node and NodeClaim may go too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.nodeclaims import read_claim, request_deletion
from activities.kubernetes.nodes import find_node
from activities.kubernetes.resources import NODECLAIMS, NODES
from tenon.apis import labels
from tenon.lifecycle import pods
from tenon.lifecycle.messages import ReleaseInput


async def release(kube: Kube, wanted: ReleaseInput) -> None:
    """Delete what is still there and take the finalizers off: the Node first, for the claim remembers it.

    Only the Node with the claim's provider ID and the claim with its UID are touched; what is gone is well.
    """
    claim = await read_claim(kube, wanted.claim)
    node = (await find_node(kube, wanted, claim)).node
    if node is not None:
        name, uid = node["metadata"]["name"], pods.uid(node)
        if not node["metadata"].get("deletionTimestamp"):
            await kube.delete(NODES, name, uid=uid)
        await change(kube, NODES, name, _freed, uid=uid)
    if claim is not None:
        await request_deletion(kube, claim)
        await change(kube, NODECLAIMS, wanted.claim.name, _freed, uid=wanted.claim.uid)


def _freed(obj: Mapping[str, Any]) -> dict[str, Any]:
    finalizers = obj["metadata"].get("finalizers") or ()
    if labels.TERMINATION_FINALIZER not in finalizers:
        return {}
    return {"metadata": {"finalizers": [one for one in finalizers if one != labels.TERMINATION_FINALIZER]}}
