"""Reads of a NodePool what its nodes need when they leave."""

from __future__ import annotations

import re

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import NODEPOOLS
from tenon.apis.expiration import expires_within_budgets
from tenon.apis.nodepool import Disruption
from tenon.apis.reasons import traits_of
from tenon.kube import object_json


async def makes_expired_nodes_wait(kube: Kube, pool: str) -> bool:
    """Return whether expired nodes of the NodePool wait for its budgets; not if it is gone."""
    nodepool = await kube.get(NODEPOOLS, pool)
    return nodepool is not None and expires_within_budgets(object_json.annotations(nodepool))


async def consolidation_policy(kube: Kube, pool: str, reason: str) -> str:
    """Return the label ``consolidation_policy`` for a node that leaves, such as when_empty (DIS-85).

    As in Karpenter, it is empty unless the node leaves because of consolidation. It is also empty if the NodePool is
    gone or cannot be read, because a label must not keep a node from leaving.
    """
    if not pool or not traits_of(reason).is_consolidation:
        return ""
    try:
        nodepool = await kube.get(NODEPOOLS, pool)
    except ApiError:
        return ""
    if nodepool is None:
        return ""
    disruption = (nodepool.get("spec") or {}).get("disruption") or {}
    policy = str(disruption.get("consolidationPolicy") or Disruption().consolidation_policy)
    return re.sub(r"(?<!^)(?=[A-Z])", "_", policy).lower()
