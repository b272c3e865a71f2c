"""Reads the times of events from an iCalendar (RFC 5545), and nothing else.

Anyone may have written the calendar. So no text of it reaches a message, and the caller limits the time and memory that
this takes: a rule of a few bytes can have more hits than there are atoms to store them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import recurring_ical_events
from icalendar import Calendar

from tenon.apis.disruption_windows import first_instant
from tenon.disruption.freezes.calendar_times import CalendarTimes, Event, merged
from tenon.errors import TenonError

HORIZON = timedelta(days=60)
"""How far ahead events are looked for. If the calendar cannot be read for longer, its freeze holds."""
MAX_HITS = 10_000
"""Maximum number of events within the horizon."""
TOO_FREQUENT = frozenset({"SECONDLY", "MINUTELY"})
"""Frequencies of rules that no freeze needs, and that take long to evaluate."""


class CalendarError(TenonError):
    """A calendar that cannot be read. The message is the end of a sentence that begins with its name."""


def times_in(content: bytes, timezone: str, now: datetime) -> CalendarTimes:
    """Return the times of a calendar's events that have not ended.

    Args:
        content: the calendar.
        timezone: where events begin that name no time zone, such as those of whole days.
        now: the time.

    Raises:
        CalendarError: it is no calendar, or it has too many events.
    """
    zone, horizon = ZoneInfo(timezone), now + HORIZON
    if not content.rstrip().upper().endswith(b"END:VCALENDAR"):
        raise CalendarError("is no iCalendar, or its end is missing")
    try:
        calendar = Calendar.from_ical(content)
        _refuse_endless(calendar)
        # A day more on both sides, because the clock of an event without a time zone is another one.
        hits = recurring_ical_events.of(calendar).between(now - timedelta(days=1), horizon + timedelta(days=1))
        if len(hits) > MAX_HITS:
            raise CalendarError(f"has {len(hits)} events within {HORIZON.days} days: {MAX_HITS} are the most")
        events = [event for hit in hits if (event := _event(hit, zone)) is not None]
    except (CalendarError, MemoryError):
        raise
    except Exception as error:  # the library raises errors of all kinds for what it does not understand
        raise CalendarError(f"is no valid iCalendar ({type(error).__name__})") from error
    return merged((event for event in events if event.end > now and event.start < horizon), horizon, timezone)


def _refuse_endless(calendar: Any) -> None:
    for component in calendar.walk("VEVENT"):
        for rule in _rules(component.get("RRULE")):
            if {str(frequency).upper() for frequency in rule.get("FREQ", ())} & TOO_FREQUENT:
                raise CalendarError("has an event that repeats every minute or second: write a longer one instead")
            if any(interval < 1 for interval in rule.get("INTERVAL", ())):
                raise CalendarError("has an event that repeats without an interval")


def _rules(value: Any) -> Iterator[Any]:
    yield from () if value is None else value if isinstance(value, list) else [value]


def _event(hit: Any, zone: ZoneInfo) -> Event | None:
    """Return the time of an event; None if it is cancelled or takes no time."""
    if str(hit.get("STATUS", "")).upper() == "CANCELLED":
        return None
    start, end = _instant(hit["DTSTART"].dt, zone), _instant(hit["DTEND"].dt, zone)
    return Event(start, end) if start < end else None


def _instant(at: date, zone: ZoneInfo) -> datetime:
    if not isinstance(at, datetime):
        return first_instant(datetime.combine(at, time()), zone)
    return first_instant(at, zone) if at.tzinfo is None else at.astimezone(UTC)
