"""What the budgets of each NodePool leave for one reason, while methods choose nodes."""

from __future__ import annotations

from tenon.disruption.budgets import allowed
from tenon.disruption.model import Situation


class PoolBudgets:
    """How many more nodes of each NodePool may be disrupted for one reason. Computed on first use of a pool."""

    def __init__(self, situation: Situation, reason: str) -> None:
        self._situation = situation
        self._reason = reason
        self._left: dict[str, int] = {}

    def left(self, pool: str) -> int:
        """Return how many more nodes may be disrupted."""
        if pool not in self._left:
            self._left[pool] = self._allowed(pool)
        return self._left[pool]

    def take(self, pool: str) -> bool:
        """Take one node from the pool's budget. Return False if none is left."""
        if self.left(pool) <= 0:
            return False
        self._left[pool] -= 1
        return True

    def _allowed(self, pool: str) -> int:
        """Count only nodes that are initialized and whose instance is not being terminated (DIS-50, DIS-52)."""
        given = self._situation
        members = [node for node in given.nodes if node.pool == pool and node.initialized and not node.terminating]
        unavailable = sum(
            node.leaving or not node.ready or bool(node.disrupted_by) or node.claim in given.under_command
            for node in members
        )
        return allowed(
            given.policies[pool].budgets, self._reason, total=len(members), unavailable=unavailable, now=given.now
        )
