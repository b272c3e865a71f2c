"""The status of a NodeSchedule, and the boot time that it remembers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tenon.apis.nodeschedule import NodeSchedule
from tenon.kube.timestamps import format_instant
from tenon.schedule.desired import desired
from tenon.schedule.status import learned_boot_time, schedule_status
from tests.tenon.schedule.schedules import HOURS, NIGHTS, POOL, a_schedule
from tests.worker.cache.objects import claim

NOW = datetime(2026, 6, 10, 1, tzinfo=UTC)
CREATED = datetime(2026, 6, 1, 8, tzinfo=UTC)


def booted(*seconds: float) -> int | None:
    return learned_boot_time(
        claim(
            meta={"creationTimestamp": format_instant(CREATED)},
            initialized=format_instant(CREATED + timedelta(seconds=item)),
        )
        for item in seconds
    )


def status(schedule: NodeSchedule, before: dict[str, Any], boots: dict[str, int], *obstacles: str) -> dict[str, Any]:
    return schedule_status(schedule, before, [], desired([schedule], NOW), boots, obstacles, now=NOW, generation=1)


def test_the_boot_time_is_a_quarter_more_than_the_longest_in_half_minutes() -> None:
    assert booted(70, 100, 40) == 150
    assert booted(24) == 30
    assert booted() is None
    assert booted(-5, 7200) is None, "a clock that went wrong, and a node that waited for something else"
    assert booted(3600) == 3600


def test_a_boot_time_is_remembered_while_no_node_tells() -> None:
    schedule = a_schedule(NIGHTS, bootTime=None)
    first = status(schedule, {}, {POOL: 150})
    assert first["nodePools"] == [
        {"name": POOL, "holds": "off", "until": "2026-06-10T06:55:00Z", "bootTime": "150s"},
    ]
    assert status(schedule, first, {})["nodePools"][0]["bootTime"] == "150s"
    learned = a_schedule(NIGHTS, bootTime=None, status=first)
    assert status(learned, first, {})["nextChange"] == "2026-06-10T06:57:30Z"


def test_what_does_not_hold_is_said_in_a_condition() -> None:
    conditions = {entry["type"]: entry for entry in status(a_schedule(HOURS), {}, {}, "no room")["conditions"]}
    assert (conditions["Applied"]["status"], conditions["Applied"]["message"]) == ("False", "no room")
    assert conditions["Ready"]["status"] == "True"


def test_a_schedule_that_is_suspended_or_not_valid_names_no_nodepools() -> None:
    assert status(a_schedule(NIGHTS, suspend=True), {}, {})["nodePools"] == []
    invalid = schedule_status(None, {}, ["entries: is missing"], desired([], NOW), {}, [], now=NOW)
    assert (invalid["nodePools"], invalid["nextChange"]) == ([], None)
    conditions = {entry["type"]: entry for entry in invalid["conditions"]}
    assert conditions["ValidationSucceeded"]["message"] == "entries: is missing. It asks for nothing until then"
    assert conditions["Applied"]["status"] == "False"
