"""Freezes that follow an iCalendar: what they know of it, and what holds if they know nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tenon.apis.disruptionfreeze import DisruptionFreeze
from tenon.apis.validation import check, parse
from tenon.disruption.freezes.calendar_times import CalendarTimes, Event, calendar_status, merged, next_read
from tenon.disruption.freezes.freeze import NEVER, freeze_of, freezes_for, frozen_now
from tenon.disruption.freezes.status import freeze_status

NOW = datetime(2026, 11, 2, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
URL = "https://example.com/a.ics?token=secret-word"


def freeze(status: dict[str, Any] | None = None, **spec: Any) -> DisruptionFreeze:
    spec = {"calendar": {"url": URL, "timezone": "Europe/Berlin"}, **spec}
    body = {"apiVersion": "tenon.sh/v1alpha1", "kind": "DisruptionFreeze", "metadata": {"name": "releases"}}
    model, _ = parse(DisruptionFreeze, {**body, "spec": spec, "status": status or {}})
    assert model is not None
    return model


def times(*hours: tuple[float, float], known_hours: float = 100) -> CalendarTimes:
    """Events that begin and end so many hours after now."""
    return merged((Event(NOW + begin * HOUR, NOW + end * HOUR) for begin, end in hours), NOW + known_hours * HOUR)


def having_read(known_times: CalendarTimes, **spec: Any) -> DisruptionFreeze:
    """A freeze whose calendar was read now. What a status keeps is JSON."""
    calendar = freeze(**spec).spec.calendar
    assert calendar is not None
    return freeze({"calendar": calendar_status(calendar, known_times, NOW).to_dict()}, **spec)


def at(model: DisruptionFreeze, hours: float) -> datetime | None:
    """Until when it holds, so many hours after now."""
    return freeze_of(model).ends(NOW + hours * HOUR)


def test_a_freeze_holds_during_the_events_of_its_calendar() -> None:
    model = having_read(times((1, 2), (5, 6)))
    assert [at(model, hours) for hours in (0, 1, 1.5, 2, 5)] == [
        None,
        NOW + 2 * HOUR,
        NOW + 2 * HOUR,
        None,
        NOW + 6 * HOUR,
    ]
    assert [freeze_of(model).begins(NOW + hours * HOUR) for hours in (0, 1, 2, 6)] == [
        *[NOW + HOUR, None, NOW + 5 * HOUR, None]
    ]


def test_people_read_its_end_on_their_clock() -> None:
    frozen = frozen_now(freezes_for([having_read(times((-1, 2)))], "web", {}), NOW)
    assert frozen is not None
    assert frozen.until.tzinfo == ZoneInfo("Europe/Berlin")
    assert frozen.clause == "frozen by DisruptionFreeze releases until Mon 2026-11-02 at 15:00 Europe/Berlin"


def test_windows_count_in_addition_and_start_and_end_limit_both() -> None:
    windows = [{"schedule": "0 20 * * *", "duration": "1h"}]
    model = having_read(times((1, 2), (5, 6)), windows=windows, endTime="2026-11-02T17:30:00Z")
    assert [at(model, hours) for hours in (1, 5, 8.5)] == [NOW + 2 * HOUR, NOW + 5.5 * HOUR, None]
    model = having_read(times((1, 2)), windows=windows, startTime="2026-11-02T13:30:00Z")
    assert [at(model, hours) for hours in (1, 1.5, 8.5)] == [None, NOW + 2 * HOUR, NOW + 9 * HOUR]


def test_a_calendar_that_was_never_read_freezes_within_start_and_end() -> None:
    assert at(freeze(), 0) == NEVER
    bounded = freeze(startTime="2026-11-02T13:00:00Z", endTime="2026-11-02T15:00:00Z")
    assert [at(bounded, hours) for hours in (0, 1, 3)] == [None, NOW + 3 * HOUR, None]


@pytest.mark.parametrize(
    "calendar", [{"url": "https://example.com/b.ics", "timezone": "Europe/Berlin"}, {"url": URL, "timezone": "UTC"}]
)
def test_the_times_of_another_calendar_do_not_count(calendar: dict[str, str]) -> None:
    status = {"calendar": having_read(times((1, 2))).to_dict()["status"]["calendar"]}
    changed = freeze(status, calendar=calendar)
    assert at(changed, 3) == NEVER
    assert changed.spec.calendar is not None
    assert next_read(changed.spec.calendar, changed.status.calendar) is None


def test_it_holds_from_where_nothing_is_known() -> None:
    model = having_read(times((1, 2), known_hours=100))
    assert [at(model, hours) for hours in (99, 100, 10_000)] == [None, NEVER, NEVER]
    status, evaluated_at = freeze_status(model, model.status.to_dict(), [], 1, now=NOW + 3 * HOUR)
    assert (status["active"], status["nextChange"], evaluated_at) == (False, None, NOW + 100 * HOUR)
    status, evaluated_at = freeze_status(model, model.status.to_dict(), [], 1, now=NOW + 100 * HOUR)
    assert (status["active"], evaluated_at) == (True, None)


def test_a_calendar_is_read_again_after_its_interval_but_not_too_often() -> None:
    for interval, expected in (("2h", 2 * HOUR), ("1s", HOUR / 12)):
        model = having_read(times(), calendar={"url": URL, "refreshInterval": interval})
        assert model.spec.calendar is not None
        assert next_read(model.spec.calendar, model.status.calendar) == NOW + expected


def condition_of(model: DisruptionFreeze) -> tuple[str, str, str]:
    status, _ = freeze_status(model, model.status.to_dict(), [], 1, now=NOW)
    assert "calendar" not in status, "only who reads the calendar writes that"
    found_condition = next(entry for entry in status["conditions"] if entry["type"] == "CalendarRead")
    return found_condition["status"], found_condition["reason"], found_condition.get("message", "")


def test_the_condition_says_what_came_of_the_last_try_and_what_holds() -> None:
    frozen = "The NodePools that it selects are frozen until it can be read"
    assert condition_of(freeze()) == ("Unknown", "CalendarNotReadYet", frozen)
    failed = {"calendar": {"failure": "example.com answers 404"}}
    assert condition_of(freeze(failed)) == ("False", "CalendarUnreadable", f"example.com answers 404. {frozen}")
    model = having_read(times((1, 2)))
    assert condition_of(model) == ("True", "CalendarRead", "")
    stale = freeze({"calendar": {**model.to_dict()["status"]["calendar"], **failed["calendar"]}})
    _, _, message = condition_of(stale)
    assert message == (
        "example.com answers 404. Its last times hold until 2026-11-06 16:00:00 UTC, and all of the time after that"
    )


def test_nothing_of_the_url_is_in_the_status() -> None:
    model = having_read(times((1, 2)))
    assert "secret-word" not in str(model.to_dict()["status"])


def test_a_freeze_that_loses_its_calendar_loses_condition_and_times() -> None:
    before, _ = freeze_status(freeze(), {}, [], 1, now=NOW)
    before["calendar"] = having_read(times()).to_dict()["status"]["calendar"]
    status, _ = freeze_status(freeze(before, calendar=None), before, [], 1, now=NOW)
    assert status["calendar"] is None
    assert [entry["type"] for entry in status["conditions"]] == ["ValidationSucceeded", "Ready"]


@pytest.mark.parametrize(
    ("calendar", "is_valid"),
    [
        ({"url": URL}, True),
        ({"url": "http://[2001:db8::1]:8080/a.ics"}, True),
        ({"url": "https://ann:secret@example.com/a.ics"}, False),
        ({"url": "ftp://example.com/a.ics"}, False),
        ({"url": "file:///etc/passwd"}, False),
        ({"url": "https://"}, False),
        ({"url": "https://example.com/a b"}, False),
        ({"url": "https://example.com/\na"}, False),
        ({"url": "https://example.com/" + "a" * 2048}, False),
        ({"url": URL, "timezone": "Berlin"}, False),
        ({"url": URL, "refreshInterval": "Never"}, False),
        ({}, False),
    ],
)
def test_what_a_calendar_may_be(calendar: dict[str, str], is_valid: bool) -> None:
    body = {"apiVersion": "tenon.sh/v1alpha1", "kind": "DisruptionFreeze", "metadata": {"name": "releases"}}
    model, faults = parse(DisruptionFreeze, {**body, "spec": {"calendar": calendar}})
    assert (not faults and model is not None and check(model) == []) is is_valid
