"""When an entry of a NodeSchedule holds, as instants.

A clock that is changed for daylight saving skips times, and shows others twice. ``from`` and ``to`` that are skipped
stand for the instant at which the clock goes forward, and those that come twice for the first time. So hours from 09:00
to 19:00 always begin and end at these times on the clock, and a night is an hour shorter or longer. ``cron`` follows
the rules of disruption windows, and its duration is time that passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from tenon.apis.disruption_windows import DisruptionWindow, first_instant
from tenon.apis.nodeschedule import DAYS, ScheduleEntry

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """A time in which something holds. It includes its start and not its end."""

    start: datetime
    end: datetime

    def includes(self, instant: datetime) -> bool:
        """Whether the instant is in the window."""
        return self.start <= instant < self.end


def windows_of(entry: ScheduleEntry, time_zone: str, since: datetime, until: datetime) -> Iterator[Window]:
    """Yield the whole windows of an entry that overlap the time between ``since`` and ``until``, in no order."""
    if entry.cron is not None and entry.duration is not None:
        duration = timedelta(seconds=entry.duration.seconds or 0)
        openings = DisruptionWindow(entry.cron, duration, time_zone).openings(since - duration, until)
        windows: Iterator[Window] = (Window(opening, opening + duration) for opening in openings)
    else:
        windows = _by_the_clock(entry, ZoneInfo(time_zone), since, until)
    yield from (window for window in windows if window.start < window.end and since < window.end)


def _by_the_clock(entry: ScheduleEntry, zone: ZoneInfo, since: datetime, until: datetime) -> Iterator[Window]:
    begin, end = time.fromisoformat(entry.from_ or "00:00"), time.fromisoformat(entry.to or "00:00")
    day = since.astimezone(zone).date() - 2 * _DAY
    last = until.astimezone(zone).date()
    while day <= last:
        if not entry.days or DAYS[day.weekday()] in entry.days:
            next_day = day if end > begin else day + _DAY
            start = first_instant(datetime.combine(day, begin), zone)
            if start < until:
                yield Window(start, first_instant(datetime.combine(next_day, end), zone))
        day += _DAY


def merged(windows: Sequence[Window]) -> list[Window]:
    """Return windows that cover the same time and do not overlap or touch, in order."""
    result: list[Window] = []
    for window in sorted(windows):
        if result and window.start <= result[-1].end:
            result[-1] = Window(result[-1].start, max(result[-1].end, window.end))
        else:
            result.append(window)
    return result
