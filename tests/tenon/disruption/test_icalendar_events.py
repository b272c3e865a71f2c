"""The times of an iCalendar's events, on clocks that change, and of calendars that mean no good."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tenon.apis.disruptionfreeze import MAX_EVENTS
from tenon.disruption.freezes.calendar_times import CalendarTimes
from tenon.disruption.freezes.icalendar_events import HORIZON, CalendarError, times_in

NOW = datetime(2026, 10, 20, 12, tzinfo=UTC)
"""Five days before the clocks of Berlin go back, and twelve before those of New York."""
BERLIN_ZONE = """BEGIN:VTIMEZONE
TZID:Amt
BEGIN:STANDARD
DTSTART:19961027T030000
TZOFFSETFROM:+0200
TZOFFSETTO:+0100
RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU
END:STANDARD
BEGIN:DAYLIGHT
DTSTART:19810329T020000
TZOFFSETFROM:+0100
TZOFFSETTO:+0200
RRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU
END:DAYLIGHT
END:VTIMEZONE
"""


def calendar(*events: str, before: str = "") -> bytes:
    """A calendar with events, each the lines of one but for its first and last."""
    texts = [f"BEGIN:VEVENT\nUID:{number}\n{event}\nEND:VEVENT\n" for number, event in enumerate(events)]
    text = f"BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//a//b//EN\n{before}{''.join(texts)}END:VCALENDAR\n"
    return text.replace("\n", "\r\n").encode()


def shown(times: CalendarTimes) -> list[str]:
    return [f"{event.start:%m-%d %H:%M} - {event.end:%m-%d %H:%M}" for event in times.events]


def read(*events: str, zone: str = "UTC", before: str = "") -> list[str]:
    return shown(times_in(calendar(*events, before=before), zone, NOW))


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ("DTSTART:20261021T080000Z\nDTEND:20261021T100000Z", ["10-21 08:00 - 10-21 10:00"]),
        ("DTSTART:20261021T080000Z\nDURATION:PT90M", ["10-21 08:00 - 10-21 09:30"]),
        ("DTSTART;TZID=Europe/Berlin:20261021T080000\nDURATION:PT1H", ["10-21 06:00 - 10-21 07:00"]),
        ("DTSTART:20261021T080000\nDTEND:20261021T100000", ["10-21 06:00 - 10-21 08:00"]),
        ("DTSTART;VALUE=DATE:20261021", ["10-20 22:00 - 10-21 22:00"]),
        ("DTSTART;VALUE=DATE:20261021\nDTEND;VALUE=DATE:20261023", ["10-20 22:00 - 10-22 22:00"]),
        ("DTSTART:20261019T080000Z\nDTEND:20261021T100000Z", ["10-19 08:00 - 10-21 10:00"]),
        ("DTSTART:20261019T080000Z\nDTEND:20261020T120000Z", []),
        ("DTSTART:20261021T080000Z\nDTEND:20261021T080000Z", []),
        ("DTSTART:20261021T080000Z\nDTEND:20261021T100000Z\nSTATUS:CANCELLED", []),
        ("DTSTART:20261021T080000Z\nDTEND:20261021T100000Z\nTRANSP:TRANSPARENT", ["10-21 08:00 - 10-21 10:00"]),
        ("DTSTART:20270301T080000Z\nDTEND:20270301T100000Z", []),
    ],
    ids=[
        *["in UTC", "with a duration", "in a time zone", "on the clock of whoever looks", "a whole day", "whole days"],
        *["begun already", "just ended", "without a length", "cancelled", "free", "beyond the horizon"],
    ],
)
def test_when_an_event_happens(event: str, expected: list[str]) -> None:
    assert read(event, zone="Europe/Berlin") == expected


def test_nights_keep_their_hours_when_the_clock_goes_back() -> None:
    nights = "DTSTART;TZID=Europe/Berlin:20261001T220000\nDTEND;TZID=Europe/Berlin:20261002T060000\nRRULE:FREQ=DAILY"
    times = read(nights)
    assert times[0] == "10-20 20:00 - 10-21 04:00"
    assert times[3:6] == ["10-23 20:00 - 10-24 04:00", "10-24 20:00 - 10-25 05:00", "10-25 21:00 - 10-26 05:00"]


def test_a_whole_day_lasts_until_midnight_when_the_clock_goes_back() -> None:
    assert read("DTSTART;VALUE=DATE:20261025", zone="Europe/Berlin") == ["10-24 22:00 - 10-25 23:00"]


def test_a_day_whose_midnight_the_clock_skips_begins_afterwards() -> None:
    """In Santiago, the clock went from midnight to one o'clock on 2026-09-06."""
    times = times_in(calendar("DTSTART;VALUE=DATE:20260906"), "America/Santiago", datetime(2026, 9, 1, tzinfo=UTC))
    assert shown(times) == ["09-06 04:00 - 09-07 03:00"]


def test_a_time_zone_that_the_calendar_defines() -> None:
    event = "DTSTART;TZID=Amt:20261024T120000\nDTEND;TZID=Amt:20261024T130000\nRRULE:FREQ=DAILY;COUNT=2"
    assert read(event, before=BERLIN_ZONE) == ["10-24 10:00 - 10-24 11:00", "10-25 11:00 - 10-25 12:00"]


def test_exceptions_and_moved_events_of_a_series() -> None:
    series = "DTSTART:20261021T080000Z\nDTEND:20261021T090000Z\nRRULE:FREQ=DAILY;COUNT=4\nEXDATE:20261022T080000Z"
    moved = (
        "BEGIN:VEVENT\nUID:0\nRECURRENCE-ID:20261023T080000Z\nDTSTART:20261023T150000Z\nDTEND:20261023T160000Z\n"
        "END:VEVENT\nBEGIN:VEVENT\nUID:0\nRECURRENCE-ID:20261024T080000Z\nDTSTART:20261024T080000Z\n"
        "DTEND:20261024T090000Z\nSTATUS:CANCELLED\nEND:VEVENT\n"
    )
    assert read(series, before=moved) == ["10-21 08:00 - 10-21 09:00", "10-23 15:00 - 10-23 16:00"]


def test_events_that_overlap_or_follow_each_other_are_one_time() -> None:
    events = [
        "DTSTART:20261021T100000Z\nDTEND:20261021T110000Z",
        "DTSTART:20261021T080000Z\nDTEND:20261021T100000Z",
        "DTSTART:20261021T083000Z\nDTEND:20261021T090000Z",
        "DTSTART:20261021T110100Z\nDTEND:20261021T120000Z",
    ]
    assert read(*events) == ["10-21 08:00 - 10-21 11:00", "10-21 11:01 - 10-21 12:00"]


def test_of_too_many_times_the_first_are_known_and_no_later_ones() -> None:
    hourly = "DTSTART:20261001T000000Z\nDTEND:20261001T003000Z\nRRULE:FREQ=HOURLY"
    times = times_in(calendar(hourly), "UTC", NOW)
    assert len(times.events) == MAX_EVENTS
    assert times.known_until == times.events[-1].start + timedelta(hours=1)


def test_a_calendar_without_events_is_known_as_far_as_others() -> None:
    assert times_in(calendar(), "UTC", NOW) == CalendarTimes((), NOW + HORIZON, "UTC")


@pytest.mark.parametrize("frequency", ["SECONDLY", "MINUTELY", "minutely"])
def test_an_event_that_repeats_all_the_time_is_refused(frequency: str) -> None:
    with pytest.raises(CalendarError, match="repeats every minute or second"):
        read(f"DTSTART:20260101T000000Z\nDURATION:PT1S\nRRULE:FREQ={frequency}")


def test_an_event_that_repeats_without_an_interval_is_refused() -> None:
    with pytest.raises(CalendarError, match="repeats without an interval"):
        read("DTSTART:20260101T000000Z\nDURATION:PT1S\nRRULE:FREQ=DAILY;INTERVAL=0")


def test_too_many_events_are_refused() -> None:
    often = "DTSTART:20261001T000000Z\nDURATION:PT1S\nRRULE:FREQ=HOURLY;BYMINUTE=0,5,10,15,20,25,30,35,40,45"
    with pytest.raises(CalendarError, match=r"has 1\d{4} events within 60 days: 10000 are the most"):
        read(often)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0\xff\xfe",
        b"<html><body>Sign in</body></html>",
        b'{"events": []}',
        b"BEGIN:VCALENDAR\r\n",
        b"BEGIN:VEVENT\r\nDTSTART:20261021T080000Z\r\nEND:VEVENT\r\n",
        calendar("DTSTART:secret-word\nDTEND:20261021T090000Z"),
        calendar("SUMMARY:secret-word"),
        calendar("DTSTART:20261021T080000Z\nDTEND;VALUE=DATE:20261022"),
        calendar("DTSTART:20261021T080000Z\nDURATION:PT1H\nRRULE:FREQ=SECRET-WORD"),
        calendar("DTSTART:99991231T000000Z\nDURATION:P9999999D"),
        calendar("DTSTART:20261021T080000Z\nDURATION:PT1H", before="CALSCALE:SECRET-WORD\n"),
        b"BEGIN:VCALENDAR\r\n" * 5000,
    ],
)
def test_what_is_no_calendar_is_refused_or_has_times_and_is_never_quoted(content: bytes) -> None:
    problem, times = "", CalendarTimes((), NOW)
    try:
        times = times_in(content, "UTC", NOW)
    except CalendarError as error:
        problem = str(error)
    assert "secret" not in problem.lower()
    assert all(event.start < event.end for event in times.events)


@pytest.mark.parametrize("content", [b"", b"<html></html>", b"{}", b"BEGIN:VEVENT\r\nEND:VEVENT\r\n"])
def test_an_answer_that_is_no_calendar_is_not_taken_for_an_empty_one(content: bytes) -> None:
    """Or a page to sign in would thaw everything."""
    with pytest.raises(CalendarError):
        times_in(content, "UTC", NOW)
