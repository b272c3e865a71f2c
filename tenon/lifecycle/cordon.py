"""The marks of a node on its way out: a taint that keeps pods away, a label that keeps load balancers away."""

from __future__ import annotations

from typing import Any

from tenon.apis import labels
from tenon.apis.reasons import Reason
from tenon.kube.structs import Object
from tenon.lifecycle.registration import merged, without

BALANCER_VALUE = "karpenter"
FORCEFUL = "Forceful Termination"


def drain_reason(reason: str) -> str:
    """Why pods are drained, as their metric tells it: the disruption's reason, else one word for all other causes."""
    known = Reason.of(reason)
    return known.camel_case if known is not None and known.is_disruption else FORCEFUL


def is_disruption(reason: str) -> bool:
    """Whether a node leaves by a disruption command, which the condition DisruptionReason tells; expiry is none."""
    known = Reason.of(reason)
    return known is not None and known.is_disruption


def cordoned(node: Object) -> dict[str, Any]:
    """The merge patch that marks the Node; the finalizer with it, so that a deletion waits for the drain."""
    metadata = node["metadata"]
    wanted: dict[str, Any] = {}
    if (metadata.get("labels") or {}).get(labels.EXCLUDE_BALANCERS) is None:
        wanted["labels"] = {labels.EXCLUDE_BALANCERS: BALANCER_VALUE}
    finalizers = list(metadata.get("finalizers") or ())
    if labels.TERMINATION_FINALIZER not in finalizers and not metadata.get("deletionTimestamp"):
        wanted["finalizers"] = [*finalizers, labels.TERMINATION_FINALIZER]
    patch: dict[str, Any] = {"metadata": wanted} if wanted else {}
    before = list((node.get("spec") or {}).get("taints") or ())
    after = merged(before, [{"key": labels.DISRUPTED_TAINT[0], "effect": labels.DISRUPTED_TAINT[1]}])
    if after != before:
        patch["spec"] = {"taints": after}
    return patch


def uncordoned(node: Object) -> dict[str, Any]:
    """The merge patch that takes the marks off again, those of Karpenter before v1 too; a user's own label stays."""
    patch: dict[str, Any] = {}
    if (node["metadata"].get("labels") or {}).get(labels.EXCLUDE_BALANCERS) == BALANCER_VALUE:
        patch["metadata"] = {"labels": {labels.EXCLUDE_BALANCERS: None}}
    before = list((node.get("spec") or {}).get("taints") or ())
    after = without(without(before, labels.DISRUPTED_TAINT), labels.DISRUPTION_TAINT)
    if after != before:
        patch["spec"] = {"taints": after}
    return patch
