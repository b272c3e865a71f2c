"""The instants at which the Temporal Schedule of a NodeSchedule fires."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given

from tenon.apis.nodeschedule import NodeSchedule
from tenon.evolve import evolve
from tenon.schedule.change_times import AHEAD, MAX_TIMES, change_times
from tenon.schedule.desired import desired
from tests.tenon.schedule.schedules import HOURS, NIGHTS, POOL, a_schedule
from tests.tenon.schedule.test_desired import instants, schedules

NOW = datetime(2026, 3, 28, 12, tzinfo=UTC)


@given(schedules, instants)
def test_the_next_one_is_when_something_else_holds(items: list[NodeSchedule], now: datetime) -> None:
    """The Temporal Schedule agrees with the worker's own clock."""
    by_name = list({item.metadata.name: item for item in items}.values())
    times = change_times(by_name, by_name[0].metadata.name, now)
    until = desired(by_name, now).until.get(POOL)
    assert (times[:1] == [until]) if until is not None else times == []


def test_they_follow_the_clock_of_the_time_zone_when_it_changes() -> None:
    times = change_times([a_schedule(NIGHTS)], "hours", NOW)
    texts = [f"{at:%d %H:%M}" for at in times[:6]]
    assert texts == ["28 17:55", "28 18:00", "29 06:55", "29 16:55", "29 17:00", "30 06:55"]


def test_headroom_and_other_schedules_of_its_nodepools_count() -> None:
    buffer = {"name": "web", "namespace": "shop", "replicas": 2}
    own = a_schedule(HOURS | {"headroom": [buffer]}, name="own")
    other = a_schedule({"from": "12:00", "to": "13:00", "limits": {"cpu": "1"}}, name="other")
    alone = set(change_times([own], "own", NOW))
    assert alone < set(change_times([own, other], "own", NOW))
    headroom_only = a_schedule({"from": "09:00", "to": "19:00", "headroom": [buffer]}, name="own", nodePools=[])
    assert change_times([headroom_only], "own", NOW)[0] == datetime(2026, 3, 28, 18, tzinfo=UTC)


def test_a_suspended_one_has_none_and_one_that_is_paused_in_temporal_keeps_its_own() -> None:
    schedule = a_schedule(NIGHTS)
    assert change_times([a_schedule(NIGHTS, suspend=True)], "hours", NOW) == []
    paused = evolve(schedule, status=evolve(schedule.status, paused=True))
    assert desired([paused], NOW).pools == {}
    assert change_times([paused], "hours", NOW) == change_times([schedule], "hours", NOW)
    assert change_times([], "hours", NOW) == []


def test_they_are_bounded() -> None:
    often = a_schedule({"cron": "*/20 * * * *", "duration": "5m", "limits": {"cpu": "1"}})
    times = change_times([often], "hours", NOW)
    assert len(times) == MAX_TIMES
    assert times[-1] < NOW + timedelta(days=1) < NOW + AHEAD
