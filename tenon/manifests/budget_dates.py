"""Finds schedules of budgets that name a day which no month has, such as 31 February."""

from __future__ import annotations

from datetime import UTC, datetime

from croniter import CroniterBadDateError, croniter

_SOME_DAY = datetime(2024, 1, 1, tzinfo=UTC)
NO_DATE = (
    "no date matches {0!r}, so this budget can never be in force, and Tenon allows no disruption because of it: name a "
    "day that exists"
)


def has_a_date(schedule: str) -> bool:
    """Return whether a valid schedule is ever due."""
    try:
        croniter(schedule, _SOME_DAY).get_next(datetime)
    except CroniterBadDateError:
        return False
    return True
