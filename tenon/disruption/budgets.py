"""How many nodes of a NodePool may be disrupted at once (spec.disruption.budgets)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta

from croniter import croniter

UNLIMITED = 2**31 - 1

_NAMED = {
    "@annually": "0 0 1 1 *",
    "@yearly": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class Budget:
    """One budget: a number or percentage of nodes, for some reasons, always or in windows of a UTC cron schedule."""

    __slots__ = ("duration", "nodes", "reasons", "schedule")

    def __init__(
        self,
        nodes: str = "10%",
        reasons: Sequence[str] | None = None,
        schedule: str | None = None,
        duration: timedelta | None = None,
    ) -> None:
        """``nodes`` is a count or a percentage. ``schedule`` and ``duration`` are set together or not at all."""
        self.nodes = nodes
        self.reasons = None if reasons is None else frozenset(reasons)
        self.schedule = schedule
        self.duration = duration

    def concerns(self, reason: str) -> bool:
        """True if the budget limits this reason. A budget without reasons limits all."""
        return self.reasons is None or reason in self.reasons

    def active(self, now: datetime) -> bool:
        """True if the schedule hit within the last ``duration`` (UTC).

        Raises:
            ValueError: the schedule is not a cron expression.
        """
        if self.schedule is None or self.duration is None:
            return True
        expression = _NAMED.get(self.schedule, self.schedule)
        if not croniter.is_valid(expression):
            raise ValueError(f"{self.schedule!r} is not a cron expression of five fields")
        # get_prev returns a time strictly before its start, but a window includes the instant at which it opens.
        hit: datetime = croniter(expression, now + timedelta(microseconds=1)).get_prev(datetime)
        return hit + self.duration > now

    def allows(self, total: int) -> int:
        """Return how many of ``total`` nodes may be gone at once. A percentage rounds up."""
        if self.nodes.endswith("%"):
            return math.ceil(total * int(self.nodes[:-1]) / 100)
        return int(self.nodes)


def allowed(budgets: Sequence[Budget], reason: str, *, total: int, unavailable: int, now: datetime) -> int:
    """Return how many more nodes may be disrupted for a reason.

    The tightest active budget applies. Nodes that are not ready or already leaving count against it. A budget that
    cannot be parsed allows nothing, so that a typo never costs a node.
    """
    tightest = UNLIMITED
    for budget in budgets:
        if not budget.concerns(reason):
            continue
        try:
            if budget.active(now):
                tightest = min(tightest, budget.allows(total))
        except ValueError:
            return 0
    return max(0, tightest - unavailable) if tightest != UNLIMITED else UNLIMITED
