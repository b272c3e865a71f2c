"""Keeps a starting node cordoned until the pods that it was bought for are bound.

Without the cordon, kube-scheduler places any pending pod on a node that becomes ready. Pods of another size or of a
later plan then take the space of the planned pods, which have to wait for more nodes: the load starts later and ends up
on more, costlier nodes. DaemonSet pods tolerate a cordon, so that a cordoned node becomes ready like any other.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from tenon.apis import labels
from tenon.kube import object_json
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.planned_pods import planned_pods
from tenon.kube.structs import Object
from tenon.kube.taints import UNSCHEDULABLE, taints_of, without_taint

MAX_STARTUP_CORDON = timedelta(seconds=45)
"""A registered node that is not ready loses its startup cordon after this time, because kube-scheduler may know more
than Tenon. Its workflow checks it only once a minute, so `worker.controllers.node.startup_cordon` removes it in time.
"""


def needs_startup_cordon(claim: Object) -> bool:
    """True if the claim was bought for pods, and none of its startup taints keeps other pods away.

    The agent that removes a startup taint may be a pod that tolerates the taint but no cordon.
    """
    startup_taints = (claim.get("spec") or {}).get("startupTaints") or ()
    keeps_away = any(taint.get("effect") in ("NoSchedule", "NoExecute") for taint in startup_taints)
    return not keeps_away and bool(planned_pods(claim["metadata"].get("annotations")))


def has_startup_cordon(node: Object) -> bool:
    """True if Tenon cordoned the Node for its planned pods and nothing has uncordoned it since."""
    return _marked(node) and is_cordoned(node)


def is_cordoned(node: Object) -> bool:
    """True if the Node is cordoned, by Tenon or by a person."""
    return bool((node.get("spec") or {}).get("unschedulable"))


def removal_patch(node: Object) -> dict[str, Any]:
    """Return the merge patch that removes the startup cordon; empty if the Node has none."""
    if not _marked(node):
        return {}
    patch: dict[str, Any] = {"metadata": {"annotations": {labels.STARTUP_CORDON: None}}}
    if is_cordoned(node):
        taints = taints_of(node)
        remaining_taints = without_taint(taints, (UNSCHEDULABLE.key, UNSCHEDULABLE.effect))
        patch["spec"] = (
            {"unschedulable": None}
            if remaining_taints == taints
            else {"unschedulable": None, "taints": remaining_taints}
        )
    return patch


def _marked(node: Object) -> bool:
    return object_json.annotations(node).get(labels.STARTUP_CORDON) == "true"


def is_cordoned_too_long(claim: ClaimRecord, now: datetime) -> bool:
    """True if the claim's Node was registered so long ago that its startup cordon must go."""
    since = claim.registered_at
    return since is not None and now - since > MAX_STARTUP_CORDON
