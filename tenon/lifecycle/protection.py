"""The pod annotation karpenter.sh/do-not-disrupt: for ever, or for a while from the pod's start."""

from __future__ import annotations

from datetime import datetime, timedelta

from tenon.apis import labels
from tenon.apis.duration import go_seconds
from tenon.lifecycle.instants import format_instant


def protected_for(value: str | None, started: datetime | None, now: datetime) -> str:
    """Why a pod with this annotation may not be evicted now; empty when it may.

    A duration protects a pod that has not started yet, too; any other text protects nothing.
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


def is_misspelt(value: str | None) -> bool:
    """Whether the annotation is there but says nothing: neither true nor a positive duration."""
    if value is None or value == "true":
        return False
    seconds = go_seconds(value)
    return seconds is None or seconds <= 0
