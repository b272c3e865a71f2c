"""Which objects Tenon manages: those whose nodeClassRef names an EC2NodeClass.

Other controllers store objects of the same kinds. EKS Auto Mode has NodePools and NodeClaims of `karpenter.sh/v1` whose
nodeClassRef names a NodeClass of group eks.amazonaws.com, and its Nodes carry the same labels and the same finalizer.
Karpenter calls this check IsManaged. Tenon runs it wherever objects enter: when the cache stores them, when an activity
reads its NodeClaim, and when a sweep reads all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenon.apis import labels
from tenon.apis.json_object import field_at

KIND = "EC2NodeClass"


def is_managed(reference: object) -> bool:
    """Whether a nodeClassRef has Tenon's group and kind.

    A missing field has the default of v1beta1 (V1B-05), where ``apiVersion`` holds the group. So a reference with
    neither group nor kind belongs to Tenon.
    """
    if not isinstance(reference, Mapping):
        return True
    group = reference.get("group") or str(reference.get("apiVersion") or "").partition("/")[0] or labels.AWS_GROUP
    return bool(group == labels.AWS_GROUP and (reference.get("kind") or KIND) == KIND)


def manages_claim(claim: Mapping[str, Any]) -> bool:
    """Whether Tenon manages this raw NodeClaim: launches, writes and terminates it."""
    return is_managed((claim.get("spec") or {}).get("nodeClassRef"))


def manages_pool(pool: Mapping[str, Any]) -> bool:
    """Whether Tenon manages this raw NodePool."""
    return is_managed(field_at(pool, "spec", "template", "spec", "nodeClassRef"))


def may_manage_node(node_labels: Mapping[str, str]) -> bool:
    """Whether a Node without a NodeClaim may belong to Tenon: Tenon gives every Node a label of `AWS_GROUP`.

    While the NodeClaim exists, it decides, because labels prove nothing.
    """
    return any(key.partition("/")[0] == labels.AWS_GROUP for key in node_labels)
