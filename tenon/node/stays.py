"""Why a node stays that is to leave, from the events about its NodeClaim.

Node repair and drift are decided for all nodes together, so a node's workflow does not know what keeps its node. The
events do, and a person who asks about the node need not know where to look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from tenon.kube.timestamps import parse_instant, time_text

EVENTS = ("DisruptionBlocked", "NodeRepairBlocked")
"""The reasons of the events that say it."""
VALID_FOR = timedelta(minutes=16)
"""How long an event counts: as long as its reason lasts, it is repeated every 15 minutes."""


def stays(events: Iterable[Mapping[str, Any]], now: datetime) -> str:
    """Render, as Markdown, what the latest of a NodeClaim's events of each reason says; empty if all are old."""
    latest: dict[str, tuple[datetime, str]] = {}
    for event in events:
        at = parse_instant(event.get("lastTimestamp") or event.get("firstTimestamp"))
        reason = str(event.get("reason"))
        if reason not in EVENTS or at is None or now - at > VALID_FOR:
            continue
        latest[reason] = max(latest.get(reason, (at, "")), (at, str(event.get("message"))))
    if not latest:
        return ""
    lines = [f"- {text} ({reason}, {time_text(at)})" for reason, (at, text) in sorted(latest.items())]
    return "\n".join(["#### Why it stays", "", *lines])
