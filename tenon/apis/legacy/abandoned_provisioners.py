"""Detects Provisioners left behind by an old upgrade, so that they do not suddenly launch nodes.

Karpenter ignores Provisioners since 0.33, but nothing removed them. A cluster with NodePools created after a
Provisioner has most likely migrated away from it. A cluster that still depends on Provisioners has no such NodePools,
and a Provisioner applied today is newer than the NodePools.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tenon.apis import labels
from tenon.apis.legacy.materialized_objects import PROVISIONER, belongs_to
from tenon.apis.legacy.old_status import CONVERTED, LEFT_OVER


def left_over(provisioner: Mapping[str, Any], pools: Iterable[Mapping[str, Any]]) -> str:
    """Return why a Provisioner counts as left behind, as a sentence; empty if it does not.

    Args:
        provisioner: the Provisioner.
        pools: all NodePools, including those that Tenon generated.
    """
    metadata = provisioner["metadata"]
    if (metadata.get("annotations") or {}).get(labels.ACT) == "true" or _acted(provisioner):
        return ""
    created = str(metadata.get("creationTimestamp") or "")
    newer = []
    for pool in pools:
        if belongs_to(pool, provisioner):
            return ""
        if created and str(pool["metadata"].get("creationTimestamp") or "") > created and not _of_provisioner(pool):
            newer.append(pool["metadata"]["name"])
    if not newer:
        return ""
    return (
        f"it is older than NodePool {min(newer)}, so it counts as left behind by an upgrade, and nothing is launched "
        f"from it: delete it, or annotate it {labels.ACT}=true to let it act"
    )


def _acted(provisioner: Mapping[str, Any]) -> bool:
    """Whether Tenon has already served the Provisioner. If so, a new NodePool does not deactivate it."""
    conditions = (provisioner.get("status") or {}).get("conditions") or ()
    return any(condition.get("type") == CONVERTED and condition.get("reason") != LEFT_OVER for condition in conditions)


def _of_provisioner(pool: Mapping[str, Any]) -> bool:
    owners = pool["metadata"].get("ownerReferences") or ()
    return any(owner.get("controller") and owner.get("kind") == PROVISIONER for owner in owners)
