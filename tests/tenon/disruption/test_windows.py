"""Disruption windows: when nodes may be disrupted, in local time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.apis.disruption_windows import DisruptionWindow, read_windows
from tenon.apis.reasons import Reason
from tenon.apis.validation import check_nodepool
from tenon.disruption.deciding import decide
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.pool_policy import PoolPolicy, policy_of
from tenon.disruption.rules.pool_budgets import PoolBudgets, budget_states
from tenon.disruption.rules.windows import why_closed
from tenon.disruption.situation import Situation
from tests.activities.provisioning.fake_view import node_pool

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
SATURDAYS = {"schedule": "0 2 * * 6", "duration": "3h", "timezone": "Europe/Berlin"}


def window(schedule: str, hours: float = 1, zone: str = "Europe/Berlin") -> DisruptionWindow:
    return DisruptionWindow(schedule, timedelta(hours=hours), zone)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def open_minutes(disruption_window: DisruptionWindow, day: str) -> list[str]:
    """The times in UTC, from 12 hours before the day to 36 hours after it, at which the window opens and closes."""
    start = utc(day) - 12 * HOUR
    result = []
    for minute in range(0, 48 * 60, 5):
        at = start + minute * MINUTE
        if disruption_window.is_open(at) != disruption_window.is_open(at - 5 * MINUTE):
            result.append(f"{at:%d %H:%M}")
    return result


@pytest.mark.parametrize(
    ("day", "expected"),
    [("2026-01-10", ["10 01:00", "10 04:00"]), ("2026-07-11", ["11 00:00", "11 03:00"])],
)
def test_wsh14_a_window_opens_in_local_time_in_winter_and_in_summer(day: str, expected: list[str]) -> None:
    assert open_minutes(window("0 2 * * 6", 3), day) == expected


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("0 2 * * 0", ["29 01:00", "29 04:00"]),
        ("30 2 * * 0", ["29 01:00", "29 04:00"]),
        ("0 1 * * 0", ["29 00:00", "29 03:00"]),
        ("0 3 * * 0", ["29 01:00", "29 04:00"]),
    ],
)
def test_wsh14_a_window_in_the_hour_that_the_clock_skips_opens_after_it(schedule: str, expected: list[str]) -> None:
    assert open_minutes(window(schedule, 3), "2026-03-29") == expected


@pytest.mark.parametrize(
    ("schedule", "hours", "expected"),
    [
        ("0 2 * * 0", 0.5, ["25 00:00", "25 00:30"]),
        ("30 2 * * 0", 3, ["25 00:30", "25 03:30"]),
        ("0 1 * * 0", 3, ["24 23:00", "25 02:00"]),
        ("0 3 * * 0", 1, ["25 02:00", "25 03:00"]),
    ],
)
def test_wsh14_a_window_in_the_hour_that_comes_twice_opens_once(
    schedule: str, hours: float, expected: list[str]
) -> None:
    assert open_minutes(window(schedule, hours), "2026-10-25") == expected


@pytest.mark.parametrize("day", ["2026-03-29", "2026-10-25", "2026-06-01"])
@pytest.mark.parametrize("schedule", ["0 * * * *", "@hourly", "*/30 * * * *"])
def test_wsh14_a_window_in_every_hour_of_an_hour_is_always_open(day: str, schedule: str) -> None:
    assert open_minutes(window(schedule, 1), day) == []
    assert window(schedule, 1).is_open(utc(day))


SCHEDULES: dict[str, Callable[[datetime], bool]] = {
    "0 2 * * *": lambda at: (at.hour, at.minute) == (2, 0),
    "30 2 * * 0": lambda at: (at.isoweekday(), at.hour, at.minute) == (7, 2, 30),
    "*/20 1-3 * * *": lambda at: at.hour in (1, 2, 3) and at.minute % 20 == 0,
    "0 * * * *": lambda at: at.minute == 0,
    "15 */2 * * *": lambda at: at.hour % 2 == 0 and at.minute == 15,
    "0 0 1 * *": lambda at: (at.day, at.hour, at.minute) == (1, 0, 0),
    "@weekly": lambda at: (at.isoweekday(), at.hour, at.minute) == (7, 0, 0),
    "59 2 * * 0": lambda at: (at.isoweekday(), at.hour, at.minute) == (7, 2, 59),
}
ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/St_Johns", "UTC", "Asia/Kathmandu"]
CHANGES = [utc(day) for day in ("2026-03-29", "2026-10-25", "2026-03-08", "2026-11-01", "2026-04-04", "2026-10-03")]


@given(
    st.sampled_from(sorted(SCHEDULES)),
    st.sampled_from(ZONES),
    st.integers(1, 600),
    st.sampled_from(CHANGES),
    st.integers(-24 * 60, 48 * 60),
)
@settings(max_examples=100, deadline=None)
def test_wsh14_a_window_agrees_with_a_clock_that_is_read_every_minute(
    schedule: str, zone: str, minutes: int, day: datetime, offset: int
) -> None:
    """The judge walks through real time, reads the clock, and needs no rules for changes of it."""
    disruption_window = DisruptionWindow(schedule, minutes * MINUTE, zone)
    now = day + offset * MINUTE
    opens = [at for n in range(-minutes - 180, 1) if _opens(disruption_window, at := now + n * MINUTE)]
    assert disruption_window.is_open(now) == any(at + disruption_window.duration > now for at in opens)
    ahead = disruption_window.next_opening(now)
    assert ahead > now
    assert ahead.tzinfo == ZoneInfo(zone)
    assert disruption_window.is_open(ahead)
    assert not any(_opens(disruption_window, now + n * MINUTE) for n in range(1, min(900, int((ahead - now) / MINUTE))))
    if ahead - now < timedelta(hours=15):
        assert _opens(disruption_window, ahead.astimezone(UTC))


def _opens(disruption_window: DisruptionWindow, at: datetime) -> bool:
    zone = ZoneInfo(disruption_window.timezone)
    shown, before = (item.astimezone(zone) for item in (at, at - MINUTE))
    every_hour = disruption_window.schedule == "0 * * * *"
    if shown.fold and not every_hour:
        return False
    clock, last = shown.replace(tzinfo=None), before.replace(tzinfo=None)
    passed = [clock]
    if clock > last + MINUTE:  # the clock went forward, and all that it skipped is due now
        passed += [last + n * MINUTE for n in range(1, int((clock - last) / MINUTE))]
    return any(SCHEDULES[disruption_window.schedule](item) for item in passed)


def test_wsh14_a_reason_that_no_window_names_is_always_allowed() -> None:
    drift = read_windows(json.dumps([{**SATURDAYS, "reasons": ["Drifted"]}]))
    monday = utc("2026-11-23 09:00")
    assert why_closed(drift, "Empty", monday) == ""
    assert why_closed(drift, "Drifted", monday) == (
        "outside its disruption windows, the next opens on Sat 2026-11-28 at 02:00 Europe/Berlin"
    )
    assert why_closed(drift, "Drifted", utc("2026-11-28 01:00")) == ""
    assert why_closed((), "Drifted", monday) == ""


def test_wsh14_the_earliest_of_several_windows_is_named() -> None:
    tokyo = {"schedule": "0 9 * * 1-5", "duration": "1h", "timezone": "Asia/Tokyo"}
    windows = read_windows(json.dumps([SATURDAYS, tokyo]))
    assert "Tue 2026-11-24 at 09:00 Asia/Tokyo" in why_closed(windows, "Empty", utc("2026-11-23 09:00"))


BROKEN: list[tuple[Any, str]] = [
    ("", "is not a list of windows"),
    ("{}", "is not a list of windows"),
    ("[1]", "is not a list of windows"),
    ("[" * 100_000, "is not a list of windows"),
    ([], "has 0 windows"),
    ([SATURDAYS] * 51, "has 51 windows"),
    ([{**SATURDAYS, "timezone": "Europe/Berlln"}], "[0].timezone: 'Europe/Berlln' is not an IANA time zone"),
    ([{**SATURDAYS, "timezone": "Europe"}], "is not an IANA time zone"),
    ([{**SATURDAYS, "timezone": "../../etc/passwd"}], "is not an IANA time zone"),
    ([{**SATURDAYS, "timezone": ""}], "is not an IANA time zone"),
    ([{**SATURDAYS, "timezone": 2}], "is not an IANA time zone"),
    (
        [SATURDAYS, {**SATURDAYS, "reasons": ["Bored"]}],
        "[1].reasons: 'Bored' is not one of Underutilized, Empty, Drift",
    ),
    ([{**SATURDAYS, "reasons": []}], "is not a list of reasons"),
    ([{**SATURDAYS, "reasons": [["Empty"]]}], "is not one of"),
    ([{**SATURDAYS, "schedule": "0 0 30 2 *"}], "can never open"),
    ([{**SATURDAYS, "schedule": "61 * * * *"}], "is not a cron schedule"),
    ([{**SATURDAYS, "schedule": "0 0 2 * * 6"}], "is not a cron schedule"),
    ([{"duration": "1h"}], "[0].schedule: nothing is not a cron schedule"),
    ([{**SATURDAYS, "duration": "0h"}], "can never open"),
    ([{**SATURDAYS, "duration": "90s"}], "is not a duration in hours and minutes"),
    ([{"schedule": "@daily"}], "[0].duration: nothing is not a duration"),
    ([{**SATURDAYS, "zone": "UTC"}], "[0].zone: does not exist: a window has schedule, duration, timezone, reasons"),
]


@pytest.mark.parametrize(("value", "why"), BROKEN)
def test_wsh14_a_broken_annotation_is_refused_and_allows_nothing(value: Any, why: str) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    with pytest.raises(ValueError, match=re.escape(why)):
        read_windows(text)
    pool = node_pool(annotations={labels.DISRUPTION_WINDOWS: text})
    (fault,) = check_nodepool(pool)
    assert fault.path == "metadata.annotations[tenon.sh/disruption-windows]"
    policy = policy_of(pool)
    assert policy.windows is None
    assert PoolBudgets(situation(policy, utc("2026-11-28 01:30")), Reason.EMPTY).left("default") == 0


@given(st.text() | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(json.dumps))
def test_wsh14_whatever_the_annotation_holds_it_is_read_or_refused_in_a_sentence(text: str) -> None:
    try:
        read_windows(text)
    except ValueError as error:
        str(error).encode()


def situation(policy: PoolPolicy, now: datetime) -> Situation:
    nodes = [
        ManagedNode(f"n{n}", f"uid-{n}", policy.name, True, True, False, True, utc("2026-01-01")) for n in range(9)
    ]
    return Situation(nodes=nodes, policies={policy.name: policy}, now=now)


def test_wsh14_budgets_apply_inside_the_window_and_nothing_leaves_outside() -> None:
    text = json.dumps([{**SATURDAYS, "reasons": ["Empty"]}])
    policy = policy_of(
        node_pool(annotations={labels.DISRUPTION_WINDOWS: text}, edits={"disruption/budgets": [{"nodes": "2"}]})
    )
    inside, outside = situation(policy, utc("2026-11-28 01:00")), situation(policy, utc("2026-11-28 04:00"))
    assert [len(command.candidates) for command in decide(inside).commands] == [2]
    assert decide(outside).commands == ()
    states = {state.reason: state for state in budget_states(outside)}
    assert states[Reason.EMPTY].blocks
    assert "Sat 2026-12-05 at 02:00 Europe/Berlin" in states[Reason.EMPTY].closed
    assert (states[Reason.DRIFTED].allowed, states[Reason.DRIFTED].closed) == (2, "")
    assert all(state.closed == "" for state in budget_states(inside))


def test_wsh14_a_pool_without_the_annotation_has_no_windows() -> None:
    assert policy_of(node_pool()).windows == ()
    assert check_nodepool(node_pool()) == []
