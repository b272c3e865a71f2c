"""Removes what Tenon put on a Node or NodeClaim beyond Karpenter's own marks."""

from __future__ import annotations

from typing import Any

from tenon.apis import labels
from tenon.kube import object_json
from tenon.kube.structs import Object
from tenon.node import cordon, startup_cordon

_PREFIX = f"{labels.TENON_GROUP}/"
_KEPT = frozenset({labels.REBOOTS})
"""Means nothing to Karpenter, and counts the reboots of the last 24 hours if Tenon returns."""


def handed_back(obj: Object) -> dict[str, Any]:
    """Return the merge patch that leaves the object as Karpenter would have it; empty if nothing is to change.

    A Node that is not being deleted also loses its cordons: the one that reserves it for its planned pods, and the one
    of a disruption that will not be carried out. It also loses the taint of a warm node, which Karpenter does not know.
    """
    metadata: dict[str, Any] = {}
    for kind in ("labels", "annotations"):
        ours = {key: None for key in obj["metadata"].get(kind) or {} if key.startswith(_PREFIX) and key not in _KEPT}
        if ours:
            metadata[kind] = ours
    spec: dict[str, Any] = {}
    if obj["kind"] == "Node" and not object_json.is_deleting(obj):
        spec |= startup_cordon.removal_patch(obj).get("spec") or {}
        untainted = cordon.uncordoned({**obj, "spec": {**(obj.get("spec") or {}), **spec}})
        spec |= untainted.get("spec") or {}
        taints = spec.get("taints", (obj.get("spec") or {}).get("taints")) or []
        others = [taint for taint in taints if (taint.get("key"), taint.get("effect")) != labels.WARM_TAINT]
        if len(others) < len(taints):
            spec["taints"] = others
        for kind, values in (untainted.get("metadata") or {}).items():
            metadata[kind] = {**metadata.get(kind, {}), **values}
    return {**({"metadata": metadata} if metadata else {}), **({"spec": spec} if spec else {})}
