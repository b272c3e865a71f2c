"""Provisioners that an upgrade of years ago left behind, and that must not buy nodes all of a sudden.

Karpenter from 0.33 on takes no notice of a Provisioner, and nothing ever removed them. Who runs NodePools that were
made after a Provisioner has most likely moved on from it; who still lives by Provisioners has no such NodePools, and
who applies one today applies it after them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tenon.apis import labels
from tenon.apis.legacy.materialized_objects import PROVISIONER, belongs_to
from tenon.apis.legacy.old_status import CONVERTED, LEFT_OVER


def left_over(provisioner: Mapping[str, Any], pools: Iterable[Mapping[str, Any]]) -> str:
    """Why a Provisioner is taken for one that was left behind, in a sentence; empty when it is not.

    Args:
        provisioner: the Provisioner.
        pools: all NodePools, whoever made them.
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
    """Whether Tenon has served it before; then a NodePool that is made beside it stops nothing."""
    conditions = (provisioner.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == CONVERTED and one.get("reason") != LEFT_OVER for one in conditions)


def _of_provisioner(pool: Mapping[str, Any]) -> bool:
    owners = pool["metadata"].get("ownerReferences") or ()
    return any(one.get("controller") and one.get("kind") == PROVISIONER for one in owners)
