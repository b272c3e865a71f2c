"""What it costs the pods of a node when it is taken away: the order in which equally good candidates are chosen."""

from __future__ import annotations

from collections.abc import Iterable

NODE_BASE = 1.0
"""What taking a node away costs although nothing that needs another place runs on it."""
LEAST, MOST = -10.0, 10.0


def eviction_cost(priority: int, deletion_cost: int) -> float:
    """What moving one pod costs: 1 for an ordinary one, more or less by its priority and its pod-deletion-cost."""
    return min(MOST, max(LEAST, 1.0 + deletion_cost / 2**27 + priority / 2**25))


def rescheduling_cost(pods: Iterable[tuple[int, int]]) -> float:
    """What taking a node away costs, given (priority, deletion cost) of each pod that would need another place."""
    return NODE_BASE + sum(max(0.0, eviction_cost(priority, deletion_cost)) for priority, deletion_cost in pods)
