"""Which objects are Tenon's to act on: those whose nodeClassRef names an EC2NodeClass.

Other controllers store objects of the same kinds: EKS Auto Mode has NodePools and NodeClaims of `karpenter.sh/v1` whose
nodeClassRef names a NodeClass of group eks.amazonaws.com, and its Nodes carry the same labels and the same finalizer.
Karpenter calls this test IsManaged. It is made where objects come in: as the cache takes them over, as an activity
reads its NodeClaim, and as a sweep reads all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenon.apis import labels

KIND = "EC2NodeClass"


def is_managed(reference: object) -> bool:
    """Whether a nodeClassRef is of Tenon's group and kind.

    What it leaves out has the default that v1beta1 gives it (V1B-05), where the group is in ``apiVersion``; so a
    reference that names neither group nor kind is Tenon's.
    """
    if not isinstance(reference, Mapping):
        return True
    group = reference.get("group") or str(reference.get("apiVersion") or "").partition("/")[0] or labels.AWS_GROUP
    return bool(group == labels.AWS_GROUP and (reference.get("kind") or KIND) == KIND)


def manages_claim(claim: Mapping[str, Any]) -> bool:
    """Whether a raw NodeClaim is Tenon's to launch, write and end."""
    return is_managed((claim.get("spec") or {}).get("nodeClassRef"))


def manages_pool(pool: Mapping[str, Any]) -> bool:
    """Whether a raw NodePool is Tenon's to serve."""
    found: Any = pool
    for name in ("spec", "template", "spec", "nodeClassRef"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return is_managed(found)


def may_manage_node(node_labels: Mapping[str, str]) -> bool:
    """Whether a Node whose NodeClaim is gone may be Tenon's: every Node that Tenon registers says its class or type.

    Labels are no proof while the NodeClaim is there: then the NodeClaim decides.
    """
    return any(key.partition("/")[0] == labels.AWS_GROUP for key in node_labels)
