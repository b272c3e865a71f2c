"""Decides how long the nodes of a cluster are drained: within budgets for a time, then by force, then not any more.

A drain that fails has a day after its time, so that somebody can add what it lacks, such as a right. A cluster that is
torn down must not cost money for ever, so its nodes then end without a drain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

FORCED_FOR = timedelta(minutes=5)
"""How long nodes that drain by force may take before their instances are terminated all the same."""
FAILS_FOR = timedelta(hours=24)
"""How long rounds may fail without one that succeeds, after the time in which PodDisruptionBudgets hold."""
FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=5), timedelta(minutes=5)
ROUNDS_IN_A_DRAIN = 60
"""About so many rounds a long drain has, so that the history of its workflow stays short."""


@dataclass(frozen=True, slots=True)
class Draining:
    """A drain that goes on."""

    since: datetime
    within: timedelta
    """How long PodDisruptionBudgets hold."""
    rounds: int = 0
    forced_at: datetime | None = None
    failing_since: datetime | None = None
    """When the first of the rounds failed since the last one that succeeded; None if that was the last one."""

    def after_round(self, now: datetime, *, failed: bool) -> Draining:
        """Return the drain after one more round."""
        failing_since = (self.failing_since or now) if failed else None
        return replace(self, rounds=self.rounds + 1, failing_since=failing_since)

    def is_given_up(self, now: datetime) -> bool:
        """Whether rounds have failed for so long that nodes end without a drain."""
        if self.failing_since is None:
            return False
        return now - max(self.failing_since, self.since + self.within) >= FAILS_FOR

    def is_over(self, now: datetime, node_count: int) -> bool:
        """Whether there is no other round: all nodes are gone, or the time is."""
        return not node_count or (self.forced_at is not None and now - self.forced_at >= FORCED_FOR)

    def must_force(self, now: datetime) -> bool:
        """Whether the next round drains by force, which each node needs to hear only once."""
        return self.forced_at is None and self.is_past_time(now)

    def is_past_time(self, now: datetime) -> bool:
        """Whether the time is over in which PodDisruptionBudgets hold."""
        return now - self.since >= self.within

    def pause(self, now: datetime) -> timedelta:
        """How long to wait before the next round."""
        longest = min(LONGEST_PAUSE, max(FIRST_PAUSE, self.within / ROUNDS_IN_A_DRAIN))
        if self.forced_at is not None:
            return min(FIRST_PAUSE * max(1, self.rounds), longest)
        if self.is_past_time(now):  # the round that drains by force failed, perhaps for hours
            return min(FIRST_PAUSE * max(1, self.rounds), LONGEST_PAUSE)
        pause = min(FIRST_PAUSE * max(1, self.rounds), longest)
        return max(timedelta(seconds=1), min(pause, self.since + self.within - now))
