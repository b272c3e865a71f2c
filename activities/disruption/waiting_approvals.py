"""Reports how many disruption commands wait until a person approves them, and for how long."""

from __future__ import annotations

from activities import metrics
from tenon.disruption.rules.approvals import waiting_since
from tenon.disruption.situation import Situation


class WaitingApprovals:
    """Sets the gauges, and remembers which series it set: those without a command drop to 0."""

    def __init__(self) -> None:
        self._reported: set[tuple[str, str]] = set()

    def report(self, situation: Situation) -> None:
        """Set the gauges as of a situation."""
        waiting = waiting_since(situation.approvals)
        series = {(pool, reason.snake_case): times for (pool, reason), times in waiting.items()}
        for labels in self._reported - series.keys():
            metrics.APPROVALS_WAITING.labels(*labels).set(0)
            metrics.LONGEST_APPROVAL_WAIT.labels(*labels).set(0)
        for labels, times in series.items():
            metrics.APPROVALS_WAITING.labels(*labels).set(len(times))
            metrics.LONGEST_APPROVAL_WAIT.labels(*labels).set((situation.now - min(times)).total_seconds())
        self._reported = set(series)
