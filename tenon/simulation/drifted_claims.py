"""Sets the condition Drifted of NodeClaims that their NodePool describes differently, as the worker's controller does.

A user who changes a NodePool in a file wants to see which nodes that replaces. The comparison with the pool needs only
the objects. What an EC2NodeClass selects is known to EC2, so that part of the condition stays as the worker wrote it.
"""

from __future__ import annotations

from datetime import datetime

from tenon.apis.json_object import JsonObject
from tenon.apis.nodeclaim import DRIFTED
from tenon.apis.nodepool import NodePool
from tenon.disruption.drift import DesiredNode, may_still_hold
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.timestamps import format_instant
from tenon.simulation.objects import Found, Objects


def compare_with_pools(objects: Objects, now: datetime) -> None:
    """Write or remove the condition of each launched NodeClaim whose NodePool is in the input."""
    pools = {pool.name: DesiredNode(NodePool.model_validate(pool.body), None) for pool in objects.of("NodePool")}
    claims = objects.by_kind.get("NodeClaim", {})
    for key, found in claims.items():
        claim = ClaimRecord.of(found.body)
        desired = pools.get(claim.pool)
        if desired is None or claim.deleting or not claim.launched:
            continue
        verdict = desired.check(claim, now)
        present = claim.condition(DRIFTED)
        if verdict.drift is not None:
            if present.get("status") != "True" or present.get("reason") != verdict.drift.reason:
                condition = {
                    "type": DRIFTED,
                    "status": "True",
                    "reason": verdict.drift.reason.value,
                    "message": verdict.drift.message,
                    "lastTransitionTime": format_instant(now),
                }
                claims[key] = _with_condition(found, condition)
        elif present and not may_still_hold(present.get("reason"), verdict.unknown):
            claims[key] = _with_condition(found, None)


def _with_condition(found: Found, condition: JsonObject | None) -> Found:
    """Return the NodeClaim with this condition Drifted, or without any."""
    status = found.body["status"]
    kept = [one for one in status.get("conditions") or () if one.get("type") != DRIFTED]
    conditions = [*kept, condition] if condition is not None else kept
    return Found(found.kind, {**found.body, "status": {**status, "conditions": conditions}}, found.source)
