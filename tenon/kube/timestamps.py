"""Timestamps in the format of Kubernetes (RFC 3339, UTC, whole seconds) for annotations and metadata, times of records
and clocks, and times in sentences.

`tenon.apis.base.rfc3339` reads what users write as strictly as the API server does.
"""

from __future__ import annotations

from datetime import MAXYEAR, MINYEAR, UTC, datetime


def parse_instant(text: object) -> datetime | None:
    """Parse an RFC 3339 timestamp and convert it to UTC; None if it is missing or malformed.

    The API server also stores ``t`` and ``z`` in small letters, in fields of custom resources.
    """
    if isinstance(text, datetime):
        return text.astimezone(UTC)
    if not isinstance(text, str) or not text:
        return None
    try:
        instant = datetime.fromisoformat(text.upper())
        return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


YEARS = f"in the years {MINYEAR + 1} to {MAXYEAR - 1}"
"""Those of `has_days_around`."""


def has_days_around(instant: datetime) -> bool:
    """Return whether the days before and after an instant are in the calendar, which windows and forecasts need."""
    return MINYEAR < instant.astimezone(UTC).year < MAXYEAR


_EARLIEST, _LATEST = datetime(1000, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
"""Times of records are in between, so that a few durations of up to 292 years can be added to them or subtracted. A
kubelet may write any year into the status of its Node and pods, and the API server stores it.
"""


def epoch_seconds(text: str | None) -> float:
    """Parse an RFC 3339 timestamp into the seconds since the epoch of a record; 0 if it is missing or malformed.

    Times near the ends of the calendar become `_EARLIEST` or `_LATEST`.
    """
    instant = parse_instant(text)
    return min(max(instant, _EARLIEST), _LATEST).timestamp() if instant is not None else 0.0


def from_epoch(seconds: float | None) -> datetime | None:
    """Return the instant that a record holds as seconds since the epoch; None for 0, which stands for unknown."""
    return clock_instant(seconds) if seconds else None


def clock_instant(seconds: float) -> datetime:
    """Return the instant of a clock's reading in seconds since the epoch, or of a record that is known to have one."""
    return datetime.fromtimestamp(seconds, UTC)


def format_instant(instant: datetime) -> str:
    """Format a timestamp, truncated to whole seconds. ``strftime`` would write the year 1 without zeros."""
    return instant.astimezone(UTC).isoformat(timespec="seconds").removesuffix("+00:00") + "Z"


def time_text(at: datetime) -> str:
    """Return a time as all sentences say it: on pages, in events, in conditions and in what commands print.

    There is no "in 3 seconds": what is read was written earlier.
    """
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def next_attempt(at: datetime) -> str:
    """Say when Tenon tries again what was refused. All outputs say it in these words, of the same time."""
    return f"next attempt at {time_text(at)}"


def spoken(at: datetime) -> str:
    """Return an hour of a schedule or freeze, which has a time zone of its own, with its weekday: 'Mon 2026-03-02 at
    07:00 Europe/Berlin'. A time with a mere offset is said in UTC.
    """
    zone = getattr(at.tzinfo, "key", "")
    return f"{at:%a %Y-%m-%d at %H:%M} {zone}" if zone else f"{at.astimezone(UTC):%a %Y-%m-%d at %H:%M} UTC"
