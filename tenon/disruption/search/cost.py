"""What it costs the pods of a node if the node is removed. Consolidation weighs it against the money that it saves."""

from __future__ import annotations

from collections.abc import Iterable

NODE_BASE = 1.0
"""The cost of removing a node even if no pod on it needs another node."""
MIN_COST, MAX_COST = -10.0, 10.0


def eviction_cost(priority: int, deletion_cost: int) -> float:
    """Return the cost of moving one pod: 1 by default, adjusted by its priority and the cost that it states."""
    return min(MAX_COST, max(MIN_COST, 1.0 + deletion_cost / 2**27 + priority / 2**25))


def rescheduling_cost(pods: Iterable[tuple[int, int]]) -> float:
    """Return the cost of removing a node, from (priority, stated cost) of each pod that needs another node."""
    return NODE_BASE + sum(max(0.0, eviction_cost(priority, deletion_cost)) for priority, deletion_cost in pods)
