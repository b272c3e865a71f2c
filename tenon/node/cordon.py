"""The cordon of a leaving node: a taint that keeps new pods away and a label that excludes it from load balancers."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tenon.apis import labels
from tenon.apis.reasons import Mode, Reason
from tenon.kube import object_json
from tenon.kube.structs import Object
from tenon.kube.taints import merged, taints_of, without_taint
from tenon.node.release import with_finalizer

BALANCER_VALUE = "karpenter"
FORCEFUL = "Forceful Termination"


def drain_reason(reason: str) -> str:
    """Return the reason label of the drain metrics: the reason in DisruptionReason, or `FORCEFUL` without one."""
    known_reason = Reason.of(reason)
    return known_reason.camel_case if known_reason is not None and has_disruption_reason(known_reason) else FORCEFUL


def has_disruption_reason(reason: str) -> bool:
    """True if the NodeClaim gets the condition DisruptionReason: for a disruption reason, and for node repair.

    Expiration does not count, even if a command removes the node.
    """
    known_reason = Reason.of(reason)
    return known_reason is not None and known_reason.is_disruption


def repair_mode(force_at: datetime | None, now: datetime) -> Mode:
    """Return the termination mode of a node that is repaired: by when its pods are deleted (N15-528, N15-530)."""
    if force_at is None:
        return "graceful"
    return "eventual" if force_at > now else "forceful"


def condition_label(type_: str) -> str:
    """Return the type of a condition in metric labels, such as accelerated_hardware_ready."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in type_).lstrip("_")


def cordoned(node: Object) -> dict[str, Any]:
    """Return the merge patch that cordons the Node.

    The patch adds the finalizer too, so that a deletion waits for the drain.
    """
    patch = tainted(node)
    if object_json.labels(node).get(labels.EXCLUDE_BALANCERS) is None:
        metadata = {"labels": {labels.EXCLUDE_BALANCERS: BALANCER_VALUE}, **patch.get("metadata", {})}
        return {**patch, "metadata": metadata}
    return patch


def tainted(node: Object) -> dict[str, Any]:
    """Return the part of `cordoned` that load balancers do not notice, for a node that may yet stay."""
    desired = with_finalizer(node).get("metadata", {})
    patch: dict[str, Any] = {"metadata": desired} if desired else {}
    before = taints_of(node)
    after = merged(before, [{"key": labels.DISRUPTED_TAINT[0], "effect": labels.DISRUPTED_TAINT[1]}])
    if after != before:
        patch["spec"] = {"taints": after}
    return patch


def uncordoned(node: Object) -> dict[str, Any]:
    """Return the merge patch that removes the cordon, including that of Karpenter before v1.

    A label that a user set stays. So does the cordon of a Node that is being deleted: pods must not come back to it.
    """
    if object_json.is_deleting(node):
        return {}
    patch: dict[str, Any] = {}
    if object_json.labels(node).get(labels.EXCLUDE_BALANCERS) == BALANCER_VALUE:
        patch["metadata"] = {"labels": {labels.EXCLUDE_BALANCERS: None}}
    before = taints_of(node)
    after = without_taint(without_taint(before, labels.DISRUPTED_TAINT), labels.DISRUPTION_TAINT)
    if after != before:
        patch["spec"] = {"taints": after}
    return patch
