"""What it costs the pods of a node if the node is removed. Consolidation weighs it against the money that it saves."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

NODE_BASE = 1.0
"""The cost of removing a node even if no pod on it needs another node."""
MIN_COST, MAX_COST = -10.0, 10.0


def eviction_cost(priority: int, deletion_cost: int) -> float:
    """Return the cost of moving one pod: 1 by default, adjusted by its priority and pod-deletion-cost."""
    return min(MAX_COST, max(MIN_COST, 1.0 + deletion_cost / 2**27 + priority / 2**25))


def rescheduling_cost(pods: Iterable[tuple[int, int]]) -> float:
    """Return the cost of removing a node, from (priority, deletion cost) of each pod that needs another node."""
    return NODE_BASE + sum(max(0.0, eviction_cost(priority, deletion_cost)) for priority, deletion_cost in pods)


def is_empty(cost: float) -> bool:
    """Whether a node with this rescheduling cost counts as empty: only pods of positive cost prevent it (DIS-23)."""
    return cost <= NODE_BASE


def remaining_life(created_at: datetime | None, expires_at: datetime | None, now: datetime) -> float:
    """Return the share of a node's life that remains, from 0 to 1 (DIS-21); 1 if it never expires."""
    if created_at is None or expires_at is None:
        return 1.0
    whole = (expires_at - created_at).total_seconds()
    left = (expires_at - now).total_seconds()
    return min(1.0, max(0.0, left / whole)) if whole > 0 else 0.0


def disruption_cost(
    rescheduling: float, created_at: datetime | None, expires_at: datetime | None, now: datetime
) -> float:
    """Return the cost of the pods alone, from the rescheduling cost, times the node's remaining life (DIS-21).

    A node that expires soon moves its pods anyway, so little is lost if they move now.
    """
    return max(0.0, rescheduling - NODE_BASE) * remaining_life(created_at, expires_at, now)
