"""Annotations that protect: karpenter.sh/do-not-disrupt and others on nodes, and on pods, also for a duration.

Before v1beta1 it was called karpenter.sh/do-not-evict. Many manifests still use that name, which protects as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from tenon.apis import labels
from tenon.apis.duration import go_seconds
from tenon.kube.records import PodRecord
from tenon.kube.timestamps import from_epoch, time_text


def node_protection(
    claim: Mapping[str, str], node: Mapping[str, str], keep_until: datetime | None, now: datetime
) -> str:
    """Return which annotation protects a node from disruption, such as ``the "..." annotation of its Node``.

    Empty if none does.

    Args:
        claim: the annotations of its NodeClaim.
        node: those of its Node.
        keep_until: until when an operator wants to keep it.
        now: the current time.
    """
    if annotation := _lasting_protection(claim, node):
        return annotation
    if keep_until is not None and keep_until > now:
        return f'the "{labels.KEEP_UNTIL}" annotation of its NodeClaim (until {time_text(keep_until)})'
    return ""


def node_protected_until(
    claim: Mapping[str, str], node: Mapping[str, str], keep_until: datetime | None
) -> datetime | None:
    """Return when the protection of a node ends; None if time alone does not end it. Parameters as above."""
    return None if _lasting_protection(claim, node) else keep_until


def _lasting_protection(claim: Mapping[str, str], node: Mapping[str, str]) -> str:
    """Return which annotation protects a node until somebody removes it; empty if none does."""
    for name in (labels.DO_NOT_DISRUPT, labels.DO_NOT_CONSOLIDATE):
        for kind, obj in (("Node", node), ("NodeClaim", claim)):
            if obj.get(name) == "true":
                return f'the "{name}" annotation of its {kind}'
    return ""


def protecting_annotation(pod: PodRecord) -> str:
    """Return the name of the annotation that protects a pod, which may have both."""
    return labels.DO_NOT_EVICT if pod.do_not_evict else labels.DO_NOT_DISRUPT


def pod_protection(pod: PodRecord, now: datetime) -> str:
    """Return which annotation of the pod forbids its eviction now, as a sentence; empty if none does.

    A pod that has ended or is ending is not evicted, so nothing protects it. A duration in do-not-disrupt counts from
    the start of the pod, and also protects a pod that has not started yet. Any other value protects nothing.
    """
    value = pod.do_not_disrupt
    if pod.terminal or pod.deleting:
        return ""
    if value == "true":
        return f"annotation {protecting_annotation(pod)} protects it"
    if _protected_seconds(pod) <= 0:
        return ""
    end = pod_protected_until(pod)
    if end is None:
        return f"annotation {labels.DO_NOT_DISRUPT} protects it for {value} from its start"
    return f"annotation {labels.DO_NOT_DISRUPT} protects it until {time_text(end)}" if now < end else ""


def pod_protected_until(pod: PodRecord) -> datetime | None:
    """Return when the duration in the pod's annotation ends; None if it has none, or if the pod has not started."""
    seconds, started = _protected_seconds(pod), from_epoch(pod.started_at)
    return started + timedelta(seconds=seconds) if started is not None and seconds > 0 else None


def _protected_seconds(pod: PodRecord) -> float:
    """For how many seconds from its start the pod's annotation protects it; 0 if it states no duration."""
    return (go_seconds(pod.do_not_disrupt) or 0.0) if pod.protected_for_a_time else 0.0


def is_invalid_value(value: str) -> bool:
    """Whether the annotation is present but invalid: neither true nor a positive duration."""
    if value in ("", "true"):
        return False
    seconds = go_seconds(value)
    return seconds is None or seconds <= 0
