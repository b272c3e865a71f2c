"""Reads cron schedules. The library is loaded with the first schedule, because most objects have none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Protocol

from tenon.apis.nodepool import SCHEDULE_PATTERN


class _Scheduled(Protocol):
    schedule: str | None


def is_cron(schedule: str) -> bool:
    """Whether the text is a schedule of five fields, or @daily and the like."""
    if re.fullmatch(SCHEDULE_PATTERN, schedule) is None:
        return False
    from croniter import croniter

    return bool(croniter.is_valid(schedule))


def later_hits(schedule: str, start: datetime) -> Iterator[datetime]:
    """Yield the hits after ``start``, the earliest first; none if the schedule names no day that exists."""
    return _hits(schedule, start, are_later=True)


def earlier_hits(schedule: str, start: datetime) -> Iterator[datetime]:
    """Yield the hits before ``start``, the latest first; none if the schedule names no day that exists."""
    return _hits(schedule, start, are_later=False)


def _hits(schedule: str, start: datetime, *, are_later: bool) -> Iterator[datetime]:
    from croniter import CroniterBadDateError, croniter

    hits = croniter(schedule, start)
    while True:
        try:
            hit: datetime = hits.get_next(datetime) if are_later else hits.get_prev(datetime)
        except CroniterBadDateError:
            return
        yield hit


def budget_problems(budgets: Iterable[_Scheduled], path: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the sentence of each budget whose schedule is invalid."""
    for index, budget in enumerate(budgets):
        if budget.schedule is not None and not is_cron(budget.schedule):
            yield (
                f"{path}[{index}].schedule",
                f"{budget.schedule[:80]!r} is not a cron schedule of five fields, such as '0 9 * * 1-5'",
            )
