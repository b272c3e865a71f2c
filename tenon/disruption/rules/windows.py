"""Whether the disruption windows of a NodePool are open for a reason, and when they open next (WSH-14)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tenon.apis.disruption_windows import DisruptionWindow
from tenon.kube.timestamps import spoken


def why_closed(windows: Sequence[DisruptionWindow] | None, reason: str, now: datetime) -> str:
    """Return why the windows allow no disruption for a reason now, in a clause; empty if they allow it.

    Args:
        windows: those of a NodePool; None if its annotation cannot be read, which allows nothing, so that a typo never
            costs a node.
        reason: the reason as budgets name it. It is always allowed if no window names it.
        now: the current time.
    """
    if windows is None:
        return "closed to disruption, because its annotation tenon.sh/disruption-windows cannot be read"
    mine = [window for window in windows if reason in window.reasons]
    if not mine or any(window.is_open(now) for window in mine):
        return ""
    opening = min(window.next_opening(now) for window in mine)
    return f"outside its disruption windows, the next opens on {spoken(opening)}"


def opening_of(windows: Sequence[DisruptionWindow] | None, reason: str, now: datetime) -> datetime | None:
    """Return when the windows allow a disruption for a reason, which may be now; None if they cannot be read."""
    if windows is None:
        return None
    if not why_closed(windows, reason, now):
        return now
    return min(window.next_opening(now) for window in windows if reason in window.reasons)
