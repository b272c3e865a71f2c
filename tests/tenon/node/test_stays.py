"""What `tenon node show` says of a node that is to leave and stays."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tenon.kube.timestamps import format_instant
from tenon.node.stays import stays

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def event(reason: str, message: str, ago: timedelta) -> dict[str, Any]:
    return {"reason": reason, "message": message, "lastTimestamp": format_instant(NOW - ago)}


def test_n15_126_the_latest_event_says_why_a_node_stays() -> None:
    earlier = event("DisruptionBlocked", "Pod default/a must stay", timedelta(minutes=9))
    later = event("DisruptionBlocked", "Pod default/b must stay", timedelta(minutes=2))
    text = stays([later, earlier, event("Disrupted", "Empty", timedelta())], NOW)
    assert text.splitlines()[2:] == ["- Pod default/b must stay (DisruptionBlocked, 2026-01-01 11:58:00 UTC)"]


def test_an_event_that_was_not_repeated_says_nothing_any_more() -> None:
    assert stays([event("NodeRepairBlocked", "More than 20%", timedelta(minutes=20))], NOW) == ""
