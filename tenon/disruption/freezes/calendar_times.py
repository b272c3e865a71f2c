"""What a freeze knows of its iCalendar: the times of the events, and until when they are known.

They are in the status of the DisruptionFreeze, so that a restarted worker stays frozen without reading the calendar.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from tenon.apis.disruptionfreeze import MAX_EVENTS, CalendarEvent, CalendarStatus, FreezeCalendar

SHORTEST_INTERVAL = timedelta(minutes=5)
"""A calendar is not read more often, whatever its freeze says."""


class Event(NamedTuple):
    """A time in UTC in which events of the calendar happen."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class CalendarTimes:
    """The events of a calendar in their order, without overlaps or gaps of no length between them."""

    events: tuple[Event, ...]
    known_until: datetime
    """Nothing is known of later events."""
    timezone: str = "UTC"
    """In which people read the times."""

    def closing(self, now: datetime) -> datetime | None:
        """Return when the event that happens now ends, in local time; None if none happens."""
        return next((self._local(event.end) for event in self.events if event.start <= now < event.end), None)

    def next_opening(self, now: datetime) -> datetime | None:
        """Return when the next event begins after now, in local time; None if none is known."""
        return next((self._local(event.start) for event in self.events if event.start > now), None)

    def _local(self, at: datetime) -> datetime:
        return at.astimezone(ZoneInfo(self.timezone))


def merged(events: Iterable[Event], known_until: datetime, timezone: str = "UTC") -> CalendarTimes:
    """Return the times of events in any order. If they are too many for a status, the first ones are known."""
    joined: list[Event] = []
    for event in sorted(events):
        if joined and event.start <= joined[-1].end:
            joined[-1] = Event(joined[-1].start, max(joined[-1].end, event.end))
        elif len(joined) == MAX_EVENTS:
            return CalendarTimes(tuple(joined), min(known_until, event.start), timezone)
        else:
            joined.append(event)
    return CalendarTimes(tuple(joined), known_until, timezone)


def source_of(calendar: FreezeCalendar) -> str:
    """Return a digest of what decides the times. The URL itself may be a secret that its owner takes back."""
    return hashlib.sha256(f"{calendar.timezone} {calendar.url}".encode()).hexdigest()[:16]


def known_times(calendar: FreezeCalendar, status: CalendarStatus | None) -> CalendarTimes | None:
    """Return what the status of a freeze says of its calendar; None if that was not read since its spec changed."""
    if status is None or status.known_until is None or status.source != source_of(calendar):
        return None
    events = tuple(Event(event.start.astimezone(UTC), event.end.astimezone(UTC)) for event in status.events)
    return CalendarTimes(events, status.known_until.astimezone(UTC), calendar.timezone)


def calendar_status(calendar: FreezeCalendar, times: CalendarTimes, now: datetime) -> CalendarStatus:
    """Return the status of a freeze whose calendar was read now."""
    return CalendarStatus(
        source=source_of(calendar),
        last_read=now.replace(microsecond=0),
        known_until=times.known_until.replace(microsecond=0),
        events=[CalendarEvent(start=event.start, end=event.end) for event in times.events],
    )


def next_read(calendar: FreezeCalendar, status: CalendarStatus | None) -> datetime | None:
    """Return when the calendar is to be read again; None for now, because it failed or its spec has changed since."""
    if status is None or status.failure or status.last_read is None or known_times(calendar, status) is None:
        return None
    return status.last_read + max(SHORTEST_INTERVAL, timedelta(seconds=calendar.refresh_interval.seconds or 0))
