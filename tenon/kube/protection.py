"""The annotation karpenter.sh/do-not-disrupt: it protects a pod permanently, or for a duration from its start.

Before v1beta1 it was called karpenter.sh/do-not-evict. Many manifests still use that name, which protects as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from tenon.apis import labels
from tenon.apis.duration import go_seconds
from tenon.kube.timestamps import format_instant


def do_not_disrupt_value(annotations: Mapping[str, str]) -> str | None:
    """Return the value of the annotation under either name; None if the pod has neither."""
    return "true" if annotations.get(labels.DO_NOT_EVICT) == "true" else annotations.get(labels.DO_NOT_DISRUPT)


def protects_node(annotations: Mapping[str, str]) -> bool:
    """Whether the annotations of a Node or NodeClaim protect it from disruption."""
    return "true" in (annotations.get(labels.DO_NOT_DISRUPT), annotations.get(labels.DO_NOT_CONSOLIDATE))


def pod_protected(annotations: Mapping[str, str], started: datetime | None, now: datetime) -> str:
    """Return why a pod with these annotations must not be evicted now; empty if it may be."""
    if annotations.get(labels.DO_NOT_EVICT) == "true":
        return f"annotation {labels.DO_NOT_EVICT} holds it"
    return protected_for(annotations.get(labels.DO_NOT_DISRUPT), started, now)


def protected_for(value: str | None, started: datetime | None, now: datetime) -> str:
    """Return why a pod with this do-not-disrupt value must not be evicted now; empty if it may be.

    A duration also protects a pod that has not started yet. Any other value protects nothing.
    """
    if value == "true":
        return f"annotation {labels.DO_NOT_DISRUPT} holds it"
    seconds = go_seconds(value) if value else None
    if seconds is None or seconds <= 0:
        return ""
    if started is None:
        return f"annotation {labels.DO_NOT_DISRUPT} holds it for {value} from its start"
    end = started + timedelta(seconds=seconds)
    return f"annotation {labels.DO_NOT_DISRUPT} holds it until {format_instant(end)}" if now < end else ""


def is_invalid_value(value: str | None) -> bool:
    """Whether the annotation is present but invalid: neither true nor a positive duration."""
    if value is None or value == "true":
        return False
    seconds = go_seconds(value)
    return seconds is None or seconds <= 0
