"""NodeSchedules that are accepted or refused."""

from __future__ import annotations

from typing import Any

import pytest

from tenon.apis.nodeschedule import NodeSchedule
from tenon.apis.validation import parse
from tests.tenon.apis.case import REMOVED, edited

NIGHT: dict[str, Any] = {"from": "19:00", "to": "09:00", "closed": True}
BASE: dict[str, Any] = {
    "apiVersion": "tenon.sh/v1alpha1",
    "kind": "NodeSchedule",
    "metadata": {"name": "case"},
    "spec": {"timeZone": "Europe/Berlin", "nodePools": ["ci"], "entries": [NIGHT]},
}


def with_entry(**fields: Any) -> dict[str, Any]:
    return {"entries": [fields]}


@pytest.mark.parametrize(
    "edits",
    [
        {},
        with_entry(cron="0 19 * * mon-fri", duration="14h", closed=True),
        with_entry(**NIGHT, days=["Sat", "Sun"], headroom=[{"name": "web", "replicas": 0}]),
        with_entry(cron="@daily", duration="168h", floor={"spare": {"cpu": "4", "memory": "8Gi"}}),
        {"nodePools": REMOVED} | with_entry(cron="@daily", duration="1h", headroom=[{"name": "web", "replicas": 3}]),
        {"suspend": True, "bootTime": "1h"},
    ],
    ids=str,
)
def test_accepted(edits: dict[str, Any]) -> None:
    schedule, problems = parse(NodeSchedule, edited(BASE, edits))
    assert schedule is not None
    assert problems == []


@pytest.mark.parametrize(
    ("edits", "why"),
    [
        ({"timeZone": REMOVED}, "spec.timeZone: is required"),
        ({"timeZone": "Europe/Belrin"}, "'Europe/Belrin' is not an IANA time zone"),
        ({"timeZone": "Europe"}, "'Europe' is not an IANA time zone"),
        ({"entries": []}, "spec.entries"),
        ({"bootTime": "2h"}, "spec.bootTime: '2h' is more than 1h"),
        ({"nodePools": REMOVED}, "closed, floor, replicas and limits are for NodePools: name them in nodePools"),
        (with_entry(closed=True), "either cron and duration, or from and to"),
        (with_entry(**NIGHT, cron="@daily", duration="1h"), "either cron and duration, or from and to"),
        (with_entry(cron="@daily", closed=True), "cron and duration must be given together"),
        ({"entries": [{"from": "19:00", "closed": True}]}, "from and to must be given together"),
        (with_entry(cron="@daily", duration="1h", days=["Mon"], closed=True), "days needs from and to"),
        ({"entries": [NIGHT | {"from": "25:00"}]}, "spec.entries[0].from"),
        (with_entry(cron="9 o'clock", duration="1h", closed=True), "is not a cron schedule"),
        (with_entry(cron="0 0 30 2 *", duration="1h", closed=True), "names no day that exists"),
        (with_entry(cron="@daily", duration="200h", closed=True), "'200h' is not between 1m and 168h"),
        (with_entry(cron="@daily", duration="0m", closed=True), "'0m' is not between 1m and 168h"),
        ({"entries": [NIGHT | {"closed": False}]}, "an entry needs closed, floor, replicas, limits or headroom"),
        ({"entries": [NIGHT | {"floor": {"nodes": 1}}]}, "closed leaves no room for floor, replicas and limits"),
        ({"entries": [NIGHT | {"closed": False, "floor": {}}]}, "a floor needs nodes or spare"),
        ({"entries": [NIGHT | {"days": ["Monday"]}]}, "spec.entries[0].days[0]"),
    ],
    ids=str,
)
def test_refused(edits: dict[str, Any], why: str) -> None:
    _, problems = parse(NodeSchedule, edited(BASE, edits))
    assert any(why in str(problem) for problem in problems), problems
