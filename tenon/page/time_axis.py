"""A window of time cut into buckets of equal length, and the labels below it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_LENGTHS = tuple(
    timedelta(minutes=minutes) for minutes in (5, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 7200, 14400, 43200)
)
_TICKS = 8
"""How many labels are written, or one more."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A window of time in buckets. The first bucket begins at a round time at or before the start of the window."""

    start: datetime
    length: timedelta
    count: int

    @property
    def end(self) -> datetime:
        """When the last bucket ends."""
        return self.start + self.count * self.length

    def bucket(self, instant: datetime) -> int | None:
        """Return the number of the bucket that has the instant; None if it is outside of the window."""
        number = int((instant - self.start) // self.length)
        return number if 0 <= number < self.count else None

    def start_of(self, bucket: int) -> datetime:
        """Return when a bucket begins."""
        return self.start + bucket * self.length

    def share(self, instant: datetime) -> float:
        """Return where in the window an instant is, from 0 to 1."""
        return (instant - self.start) / (self.end - self.start)

    def ticks(self) -> Sequence[tuple[float, str]]:
        """Return where the labels are, from 0 to 1, and their texts."""
        window = self.end - self.start
        step = next((length for length in _LENGTHS if window <= _TICKS * length), _LENGTHS[-1])
        instant = _rounded_up(self.start, step)
        ticks: list[tuple[float, str]] = []
        while instant < self.end and len(ticks) <= 2 * _TICKS:
            text = f"{instant:%b} {instant.day}" if step >= timedelta(days=1) else f"{instant:%H:%M}"
            ticks.append((self.share(instant), text))
            instant += step
        return ticks


def axis_of(start: datetime, end: datetime, most: int) -> Axis:
    """Return the axis of a window with at most about so many buckets."""
    window = max(end - start, timedelta(minutes=5))
    length = next((length for length in _LENGTHS if window <= most * length), window / most)
    first = _rounded_up(start, length)
    if first > start:
        first -= length
    return Axis(first, length, max(1, -((first - end) // length)))


def _rounded_up(instant: datetime, step: timedelta) -> datetime:
    midnight = instant.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight - (midnight - instant) // step * step if step < timedelta(days=1) else _midnight(midnight, instant)


def _midnight(midnight: datetime, instant: datetime) -> datetime:
    return midnight if midnight == instant else midnight + timedelta(days=1)
