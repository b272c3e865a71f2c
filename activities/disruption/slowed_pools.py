"""The NodePools whose consolidation saved less than predicted, as the disruption workflow last reported them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tenon.messages.disruption import PoolSavings


class SlowedPools:
    """Shared by the planner, which slows them down, and the controller that says so in their status."""

    def __init__(self, on_change: Callable[[str], None] = lambda _: None) -> None:
        """``on_change`` is called with each NodePool whose savings changed."""
        self._on_change = on_change
        self.savings: Mapping[str, PoolSavings] = {}
        self.is_reported = False
        """Whether the workflow has reported to this process yet."""

    def update(self, savings: Mapping[str, PoolSavings]) -> None:
        """Replace the savings by those that the workflow reports."""
        self.is_reported = True
        before, self.savings = self.savings, dict(savings)
        for pool in sorted(before.keys() | self.savings.keys()):
            if before.get(pool) != self.savings.get(pool):
                self._on_change(pool)
