"""Reads of a NodePool what its nodes need when they leave."""

from __future__ import annotations

import re
from datetime import datetime

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, NotFoundError
from activities.kubernetes.resources import DISRUPTIONFREEZES, NODEPOOLS
from tenon.apis.disruptionfreeze import DisruptionFreeze
from tenon.apis.expiration import expires_within_budgets
from tenon.apis.nodepool import Disruption
from tenon.apis.reasons import traits_of
from tenon.apis.validation import parse
from tenon.disruption.freezes.freeze import Frozen, freezes_for, frozen_expiry
from tenon.kube import object_json
from tenon.kube.structs import Object
from tenon.messages.node_steps import ExpirationInput, ExpirationResult


async def may_expire(kube: Kube, expiration_input: ExpirationInput, now: datetime) -> ExpirationResult:
    """Return whether an expired node waits for a freeze or for the budgets of its NodePool; not if that is gone."""
    nodepool = await kube.get(NODEPOOLS, expiration_input.pool)
    if nodepool is None:
        return ExpirationResult()
    frozen = await _frozen(kube, nodepool, expiration_input.expired_at, now)
    waits = expires_within_budgets(object_json.annotations(nodepool))
    if frozen is None:
        return ExpirationResult(waits=waits)
    return ExpirationResult(waits=waits, frozen=frozen.clause, frozen_until=frozen.until)


async def _frozen(kube: Kube, nodepool: Object, expired_at: datetime | None, now: datetime) -> Frozen | None:
    if expired_at is None:
        return None
    try:
        bodies = await kube.list(DISRUPTIONFREEZES)
    except NotFoundError:  # the CustomResourceDefinition is not installed
        return None
    freezes = [freeze for body in bodies if (freeze := parse(DisruptionFreeze, body)[0]) is not None]
    return frozen_expiry(
        freezes_for(freezes, nodepool["metadata"]["name"], object_json.labels(nodepool)), expired_at, now
    )


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
