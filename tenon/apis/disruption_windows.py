"""The annotation `tenon.sh/disruption-windows` of a NodePool: when its nodes may be disrupted, in local time.

Budgets of Karpenter say in UTC when nodes must stay. Windows say in a time zone when nodes may leave (WSH-14).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from tenon.apis.cron import earlier_hits, is_cron, later_hits
from tenon.apis.duration import HOURS_AND_MINUTES, Duration
from tenon.apis.reasons import BUDGETED, Reason
from tenon.errors import TenonError

REASONS = tuple(reason.value for reason in BUDGETED)
"""The reasons that windows may name: those that budgets limit."""
REASONS_BY_DEFAULT = tuple(reason for reason in REASONS if reason != Reason.UNHEALTHY)
"""Those of a window that names none. An unhealthy node does not wait for a window unless one says so."""
MAX_WINDOWS = 50
_KEYS = ("schedule", "duration", "timezone", "reasons")
_LONGEST_CHANGE = timedelta(hours=3)
"""More than the clocks of any zone go back at once."""
_MINUTE = timedelta(minutes=1)
_SOME_DAY = datetime(2000, 1, 1, tzinfo=UTC)


class WindowError(TenonError, ValueError):
    """A field of a window cannot be used. The message says which and why."""

    def __init__(self, index: int, field: str, sentence: str) -> None:
        """``index``: of the window in its list. ``sentence``: why, about the field."""
        super().__init__(f"[{index}].{field}: {sentence}")
        self.field = field
        self.sentence = sentence


@dataclass(frozen=True, slots=True)
class DisruptionWindow:
    """A time that begins again and again, at the hits of a cron schedule on the clock of a time zone.

    If the clock skips a hit, the window opens when the clock has gone forward. If the clock shows a hit twice, the
    first one counts, and both count if the schedule hits in every hour. The duration is elapsed time.
    """

    schedule: str
    duration: timedelta
    timezone: str = "UTC"
    reasons: tuple[str, ...] = REASONS_BY_DEFAULT

    def is_open(self, now: datetime) -> bool:
        """Whether the window is open. It includes the instant at which it opens, not the one at which it closes."""
        return self.closing(now) is not None

    def closing(self, now: datetime) -> datetime | None:
        """Return when the window closes, in its time zone; None if it is not open."""
        opened = self._last_opening(now)
        if opened is None or now >= opened + self.duration:
            return None
        return (opened + self.duration).astimezone(ZoneInfo(self.timezone))

    def next_opening(self, now: datetime) -> datetime:
        """Return when the window opens next, in its time zone."""
        zone = ZoneInfo(self.timezone)
        local = now.astimezone(zone).replace(tzinfo=None)
        opening: datetime | None = None
        # of an hour that comes twice, the second may be ahead
        for hit in later_hits(self.schedule, local - _LONGEST_CHANGE):
            later = [at for at in self._instants(hit, zone) if at > now]
            opening = min([*later, *([opening] if opening else [])], default=None)
            if opening is not None and hit > local:
                return opening.astimezone(zone)
        raise ValueError(f"{_shown(self.schedule)} names no day that exists, so the window never opens")

    def openings(self, since: datetime, until: datetime) -> Iterator[datetime]:
        """Yield when the window opens, from ``since`` on and before ``until``, in no order."""
        zone = ZoneInfo(self.timezone)
        last = until.astimezone(zone).replace(tzinfo=None) + _LONGEST_CHANGE
        for hit in later_hits(self.schedule, since.astimezone(zone).replace(tzinfo=None) - _LONGEST_CHANGE):
            if hit > last:
                return
            yield from (at for at in self._instants(hit, zone) if since <= at < until)

    def _last_opening(self, now: datetime) -> datetime | None:
        zone = ZoneInfo(self.timezone)
        local = now.astimezone(zone).replace(tzinfo=None)
        opening: datetime | None = None
        # In an hour that comes twice, hits ahead on the clock have passed once.
        for hit in earlier_hits(self.schedule, local + (_LONGEST_CHANGE if now.astimezone(zone).fold else _MINUTE)):
            earlier = [at for at in self._instants(hit, zone) if at <= now]
            opening = max([*earlier, *([opening] if opening else [])], default=None)
            if opening is not None and hit <= local:
                break
        return opening

    def _instants(self, hit: datetime, zone: ZoneInfo) -> Iterator[datetime]:
        """Yield when the clock of the zone shows this time: at two instants if it goes back over it."""
        first = first_instant(hit, zone)
        second = hit.replace(tzinfo=zone, fold=1).astimezone(UTC)
        yield first
        if second > first and self._every_hour:
            yield second

    @property
    def _every_hour(self) -> bool:
        return self.schedule == "@hourly" or self.schedule.split()[1:2] == ["*"]


def first_instant(local: datetime, zone: ZoneInfo) -> datetime:
    """Return when the clock of the zone first shows this time, or has gone forward over it."""
    while _skipped(local, zone):
        local += _MINUTE
    return local.replace(tzinfo=zone, fold=0).astimezone(UTC)


def _skipped(local: datetime, zone: ZoneInfo) -> bool:
    """Whether the clock of the zone goes forward over this time and never shows it."""
    return local.replace(tzinfo=zone).astimezone(UTC).astimezone(zone).replace(tzinfo=None) != local


@lru_cache(maxsize=1024)
def read_windows(text: str) -> tuple[DisruptionWindow, ...]:
    """Read the annotation.

    Raises:
        ValueError: it cannot be read, or a window can never open. The message is a clause for a user.
    """
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError):
        entries = None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError('is not a list of windows in JSON, such as [{"schedule": "0 2 * * 6", "duration": "3h"}]')
    if not 0 < len(entries) <= MAX_WINDOWS:
        raise ValueError(f"has {len(entries)} windows: write 1 to {MAX_WINDOWS}, or remove the annotation")
    return tuple(_window(entry, index) for index, entry in enumerate(entries))


def _window(entry: dict[str, Any], index: int) -> DisruptionWindow:
    if unknown := sorted(entry.keys() - set(_KEYS)):
        raise WindowError(index, unknown[0][:80], f"does not exist: a window has {', '.join(_KEYS)}")
    schedule, zone = entry.get("schedule"), entry.get("timezone", "UTC")
    if problem := cron_problem(schedule):
        raise WindowError(index, "schedule", problem)
    if problem := zone_problem(zone):
        raise WindowError(index, "timezone", problem)
    return DisruptionWindow(str(schedule), _duration(entry.get("duration"), index), str(zone), _reasons(entry, index))


def zone_problem(name: object) -> str:
    """Return why a text is not a time zone, in a sentence for a user; empty if it is one."""
    if isinstance(name, str) and is_zone(name):
        return ""
    return f"{_shown(name)} is not an IANA time zone: write one such as 'Europe/Berlin', or leave it out for UTC"


def _duration(value: Any, index: int) -> timedelta:
    if not isinstance(value, str) or not re.fullmatch(HOURS_AND_MINUTES, value) or len(value) > 64:
        raise WindowError(index, "duration", f"{_shown(value)} is not a duration in hours and minutes, such as 1h30m")
    length = timedelta(seconds=Duration(value).seconds or 0)
    if not length:
        raise WindowError(index, "duration", f"{_shown(value)} is not a time, so the window can never open")
    return length


def _reasons(entry: dict[str, Any], index: int) -> tuple[str, ...]:
    reasons = entry.get("reasons", list(REASONS_BY_DEFAULT))
    if not isinstance(reasons, list) or not reasons:
        all_reasons = ", ".join(REASONS_BY_DEFAULT)
        raise WindowError(index, "reasons", f"is not a list of reasons: leave it out for all of {all_reasons}")
    for reason in reasons:
        if reason not in REASONS:
            raise WindowError(index, "reasons", f"{_shown(reason)} is not one of {', '.join(REASONS)}")
    return tuple(reasons)


def cron_problem(schedule: Any) -> str:
    """Return why a value is not a cron schedule that hits at some time; empty if it is."""
    if not isinstance(schedule, str) or not is_cron(schedule):
        return f"{_shown(schedule)} is not a cron schedule of five fields, such as '0 2 * * 6'"
    if next(later_hits(schedule, _SOME_DAY), None) is None:
        return f"{_shown(schedule)} names no day that exists, so the window can never open"
    return ""


def is_zone(name: str) -> bool:
    """Whether this is the name of an IANA time zone."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # OSError: the name of a folder of zones, such as Europe
        return False
    return True


def _shown(value: Any) -> str:
    return "nothing" if value is None else ascii(value)[:80]
