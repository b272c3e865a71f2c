"""The picture of a week, and its cost."""

from __future__ import annotations

from datetime import date, timedelta
from zoneinfo import ZoneInfo

import pytest

from tenon.schedule.desired import timeline
from tenon.schedule.week import Mark, PoolNow, estimate, first_midnight, rows
from tests.tenon.schedule.schedules import HOURS, NIGHTS, POOL, a_schedule

BERLIN = ZoneInfo("Europe/Berlin")
MONDAY = date(2026, 6, 8)
WEEK = timedelta(days=7)


def test_the_picture_shows_a_mark_for_each_half_hour() -> None:
    segments = timeline(
        [a_schedule(NIGHTS, HOURS)], POOL, first_midnight(MONDAY, BERLIN), first_midnight(MONDAY + WEEK, BERLIN)
    )
    [monday, *_] = rows(segments, MONDAY, BERLIN)
    assert "".join(monday.marks) == "." * 18 + "F" * 20 + "." * 10


def test_an_hour_that_the_clock_skips_is_left_out() -> None:
    day = date(2026, 3, 29)
    segments = timeline([a_schedule(NIGHTS)], POOL, first_midnight(day, BERLIN), first_midnight(day + WEEK, BERLIN))
    [sunday, monday, *_] = rows(segments, day, BERLIN)
    assert sunday.marks[3:7] == (Mark.OFF, Mark.SKIPPED, Mark.SKIPPED, Mark.OFF)
    assert Mark.SKIPPED not in monday.marks


@pytest.mark.parametrize(("first_day", "hours"), [(MONDAY, 168), (date(2026, 3, 23), 167), (date(2026, 10, 19), 169)])
def test_the_cost_counts_the_hours_that_pass(first_day: date, hours: int) -> None:
    """Ten hours and a boot time of each day are paid for, and a day off the clock has 23 or 25 hours without."""
    segments = timeline(
        [a_schedule(NIGHTS)], POOL, first_midnight(first_day, BERLIN), first_midnight(first_day + WEEK, BERLIN)
    )
    cost = estimate(segments, PoolNow(4, 2.0))
    assert cost is not None
    assert cost.unscheduled == pytest.approx(hours * 2.0)
    assert cost.scheduled == pytest.approx(7 * (10 + 5 / 60) * 2.0)


@pytest.mark.parametrize(("replicas", "daily_node_hours"), [(6, 24 * 4 + 2 * (10 + 5 / 60)), (1, 24 * 4 - 3 * 10)])
def test_the_cost_counts_more_replicas_from_a_boot_time_early_and_fewer_from_the_stated_time(
    replicas: int, daily_node_hours: float
) -> None:
    schedule = a_schedule(HOURS | {"floor": None, "replicas": replicas})
    segments = timeline([schedule], POOL, first_midnight(MONDAY, BERLIN), first_midnight(MONDAY + WEEK, BERLIN))
    cost = estimate(segments, PoolNow(4, 2.0))
    assert cost is not None
    assert cost.scheduled == pytest.approx(7 * daily_node_hours * 0.5)


def test_a_floor_costs_what_is_missing_and_without_nodes_there_is_no_price() -> None:
    always = a_schedule({"from": "00:00", "to": "00:00", "floor": {"nodes": 6}})
    segments = timeline([always], POOL, first_midnight(MONDAY, BERLIN), first_midnight(MONDAY + WEEK, BERLIN))
    cost = estimate(segments, PoolNow(4, 2.0))
    assert cost is not None
    assert cost.scheduled == pytest.approx(168 * 3.0)
    assert estimate(segments, PoolNow(0, 0.0)) is None
