"""NodeSchedules that tests edit."""

from __future__ import annotations

from typing import Any

from tenon.apis.nodeschedule import NodeSchedule
from tenon.apis.validation import parse

POOL = "ci"


def schedule_body(*entries: dict[str, Any], name: str = "hours", **spec: Any) -> dict[str, Any]:
    """Return a manifest of a schedule of the pool `ci`."""
    defaults = {"timeZone": "Europe/Berlin", "nodePools": [POOL], "bootTime": "5m"}
    return {"metadata": {"name": name}, "spec": {**defaults, "entries": list(entries), **spec}}


def a_schedule(
    *entries: dict[str, Any],
    name: str = "hours",
    zone: str = "Europe/Berlin",
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> NodeSchedule:
    """Return a valid schedule of the pool `ci`."""
    body = {**schedule_body(*entries, name=name, timeZone=zone, **spec), "status": status or {}}
    schedule, problems = parse(NodeSchedule, body)
    assert schedule is not None
    assert not problems, problems
    return schedule


NIGHTS: dict[str, Any] = {"name": "nights", "from": "19:00", "to": "09:00", "closed": True}
HOURS: dict[str, Any] = {"name": "hours", "from": "09:00", "to": "19:00", "floor": {"nodes": 2}}
