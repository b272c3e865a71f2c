"""When a node may be consolidated: consolidateAfter has passed since a pod last came or went (DIS-30)."""

from __future__ import annotations

from datetime import datetime

from tenon.disruption.model import PoolPolicy
from tenon.kube.claim_record import ClaimRecord


def consolidatable_at(claim: ClaimRecord, policy: PoolPolicy, last_pod_event: datetime | None) -> datetime | None:
    """Return from when on the condition Consolidatable is True; None if it is not for now.

    Args:
        claim: the NodeClaim.
        policy: what its NodePool says.
        last_pod_event: the last one that was seen, if it is later than what the claim's status records.
    """
    since = claim.initialized_at
    if policy.consolidate_after is None or since is None:
        return None
    for event in (claim.last_pod_event, last_pod_event):
        if event is not None:
            since = max(since, event)
    return since + policy.consolidate_after
