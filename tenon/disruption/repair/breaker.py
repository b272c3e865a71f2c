"""When too many nodes of a NodePool are unhealthy for any of them to be ended, and what an operator keeps from repair.

Repair stops when many nodes of a NodePool are unhealthy at once, because then the cause is probably not the nodes
(N15-127). The same limit holds for nodes that leave because of EC2's status checks, and for the sweep of instances.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from tenon.apis import labels

MAX_UNHEALTHY_PERCENT = 20


def veto(node: Mapping[str, str], claim: Mapping[str, str]) -> str:
    """Return the kind of the object with an annotation that keeps repair away: Node or NodeClaim. Empty if neither has.

    Args:
        node: the annotations of the Node.
        claim: those of the NodeClaim.
    """
    kinds = (
        kind for kind, present in (("Node", node), ("NodeClaim", claim)) if present.get(labels.DO_NOT_REPAIR) == "true"
    )
    return next(kinds, "")


def max_unhealthy(total: int) -> int:
    """How many of so many nodes may be unhealthy. It rounds up, so the only node of a NodePool may be ended."""
    return -(-total * MAX_UNHEALTHY_PERCENT // 100)


class Breaker:
    """Says for which NodePools no node is ended by force, because too many of its nodes are unhealthy."""

    def __init__(self, nodes: Iterable[tuple[str, bool]]) -> None:
        """``nodes`` are the NodePool of each node of the cluster (empty if none), and whether it is unhealthy."""
        self._total, self._unhealthy = Counter[str](), Counter[str]()
        for pool, unhealthy in nodes:
            self._total[pool] += 1
            self._unhealthy[pool] += unhealthy

    def add(self, pool: str) -> None:
        """Count one more node of the NodePool as unhealthy."""
        self._unhealthy[pool] += 1

    def why_blocked(self, pool: str) -> str:
        """Why no node of the NodePool is ended; empty if they are. Without a NodePool the whole cluster counts."""
        unhealthy, limit = self._counts(pool)
        if unhealthy <= limit:
            return ""
        return f"More than {MAX_UNHEALTHY_PERCENT}% of the nodes of {_named(pool)} are unhealthy"

    def why_waits(self, pool: str) -> str:
        """Why no other node of the NodePool may become unhealthy, or begin to leave, now; empty if one may."""
        unhealthy, limit = self._counts(pool)
        if unhealthy < limit:
            return ""
        return (
            f"{MAX_UNHEALTHY_PERCENT}% of the nodes of {_named(pool)} leave now ({unhealthy}): "
            "this node leaves when one of them is gone"
        )

    def _counts(self, pool: str) -> tuple[int, int]:
        total = self._total[pool] if pool else self._total.total()
        unhealthy = self._unhealthy[pool] if pool else self._unhealthy.total()
        return unhealthy, max_unhealthy(total)


def _named(pool: str) -> str:
    return f"NodePool {pool}" if pool else "the cluster"
