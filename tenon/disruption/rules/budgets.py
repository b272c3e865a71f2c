"""How many nodes of a NodePool may be disrupted at once (spec.disruption.budgets)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from tenon.apis.cron import is_cron
from tenon.apis.nodepool import Budget

UNLIMITED = 2**31 - 1
MAX_WINDOWS = 1000
"""How many windows of schedules `opens_at` follows."""

_NAMED = {
    "@annually": "0 0 1 1 *",
    "@yearly": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


def is_active(budget: Budget, now: datetime) -> bool:
    """True if the budget has no schedule, or its schedule hit within the last ``duration`` (UTC).

    Raises:
        ValueError: the schedule is not a cron expression.
    """
    end = _window_end(budget, now)
    return end is None or end > now


def _window_end(budget: Budget, now: datetime) -> datetime | None:
    """Return the end of the window that opened last; None if the budget has no schedule."""
    if budget.schedule is None or budget.duration is None:
        return None
    if not is_cron(budget.schedule):
        raise ValueError(f"{budget.schedule!r} is not a cron expression of five fields")
    from croniter import croniter  # loaded with the first schedule: most budgets have none

    expression = _NAMED.get(budget.schedule, budget.schedule)
    # get_prev returns a time strictly before its start, but a window includes the instant at which it opens.
    hit: datetime = croniter(expression, now.astimezone(UTC) + timedelta(microseconds=1)).get_prev(datetime)
    return hit + timedelta(seconds=budget.duration.seconds or 0)


def max_unavailable(budget: Budget, total: int) -> int:
    """Return how many of ``total`` nodes may be gone at once. A percentage rounds up."""
    if budget.nodes.endswith("%"):
        return math.ceil(total * int(budget.nodes[:-1]) / 100)
    return int(budget.nodes)


def allowed(budgets: Sequence[Budget], reason: str, *, total: int, unavailable: int, now: datetime) -> int:
    """Return how many more nodes may be disrupted for a reason.

    The tightest active budget applies. Nodes that are not ready or already leaving count against it. A budget that
    cannot be parsed allows nothing, whatever its reasons are, so that a typo never costs a node.
    """
    try:
        tightest = min((max_unavailable(budget, total) for budget in _active(budgets, reason, now)), default=UNLIMITED)
    except ValueError:
        return 0
    return max(0, tightest - unavailable) if tightest != UNLIMITED else UNLIMITED


def _active(budgets: Sequence[Budget], reason: str, now: datetime) -> list[Budget]:
    """Return the budgets that are active and hold for the reason.

    Raises:
        ValueError: the schedule of one, which may hold for other reasons, is not a cron expression.
    """
    active_budgets = [budget for budget in budgets if is_active(budget, now)]
    return [budget for budget in active_budgets if budget.reasons is None or reason in budget.reasons]


def opens_at(budgets: Sequence[Budget], reason: str, *, total: int, unavailable: int, now: datetime) -> datetime | None:
    """Return when the budgets allow a node to be disrupted for a reason, if the nodes stay as they are.

    None if schedules do not decide that: a budget without a schedule binds, or a schedule cannot be parsed.
    """
    time = now
    for _ in range(MAX_WINDOWS):
        try:
            ends = [_window_end(budget, time) for budget in binding(budgets, reason, total, unavailable, time)]
        except ValueError:
            return None
        if not ends:
            return time
        known_ends = [end for end in ends if end is not None]
        if len(known_ends) < len(ends):
            return None
        time = max(known_ends)
    return None


def binding(budgets: Sequence[Budget], reason: str, total: int, unavailable: int, now: datetime) -> list[Budget]:
    """Return the active budgets that allow no more node to be disrupted for a reason.

    Raises:
        ValueError: a schedule is not a cron expression.
    """
    return [budget for budget in _active(budgets, reason, now) if max_unavailable(budget, total) <= unavailable]
