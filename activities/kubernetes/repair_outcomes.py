"""Counts the repairs of a NodeRepairPolicy in its status, so that `kubectl get` shows what a policy has done so far.

The status is the only store. It names the last repairs by their IDs, so an activity that is repeated counts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from activities import loggers
from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ForbiddenError
from activities.kubernetes.resources import NODEREPAIRPOLICIES
from tenon.apis.noderepairpolicy import MAX_RECENT, NodeRepairPolicyStatus, RecentRepair, RepairOutcomes
from tenon.kube import object_json

log = loggers.DISRUPTION


async def record_outcome(kube: Kube, policy: str, repair: RecentRepair) -> None:
    """Count how a repair ended.

    Args:
        kube: the API server.
        policy: the NodeRepairPolicy; nothing happens if it is empty, or if the object is gone.
        repair: what was done, to which node, and how it ended.
    """
    if not policy:
        return
    body = await kube.get(NODEREPAIRPOLICIES, policy)
    if body is None:
        return

    def counted(present: Mapping[str, Any]) -> dict[str, Any]:
        status = NodeRepairPolicyStatus.model_validate(present.get("status") or {})
        if any(entry.id == repair.id for entry in status.recent):
            return {}
        counts = {(entry.action, entry.outcome): entry.count for entry in status.outcomes}
        counts[repair.action, repair.outcome] = counts.get((repair.action, repair.outcome), 0) + 1
        outcomes = [
            RepairOutcomes(action=action, outcome=outcome, count=count)
            for (action, outcome), count in sorted(counts.items())
        ]
        recent = [repair, *status.recent][:MAX_RECENT]
        return {
            "status": {
                "outcomes": [entry.to_dict() for entry in outcomes],
                "recent": [entry.to_dict() for entry in recent],
            }
        }

    try:
        uid = object_json.uid(body)
        await change(kube, NODEREPAIRPOLICIES, policy, counted, uid=uid, subresource="status", read_object=body)
    except ForbiddenError as error:  # a repair must not fail because its count does
        log.warning(
            "The worker may not count a repair in the status of its policy: grant patch of noderepairpolicies/status",
            extra={"noderepairpolicy": policy, "error": str(error)},
        )
