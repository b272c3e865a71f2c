"""What a move must save because the NodePools of its nodes ask for it (WSH-02)."""

from __future__ import annotations

from collections.abc import Iterable

from tenon.disruption.nodes import NodeDetail
from tenon.disruption.situation import Situation

_ROUNDING = 1e-9
"""Dollars an hour, so that a move that saves exactly what is asked for passes."""


class LeastSavings:
    """The annotation `tenon.sh/least-saving` of every NodePool, by the names of its Nodes."""

    def __init__(self, situation: Situation) -> None:
        """Take the nodes of the pools that have the annotation."""
        least_savings = {
            name: policy.least_saving for name, policy in situation.policies.items() if policy.least_saving
        }
        self._by_node = {node.node: least_savings[node.pool] for node in situation.nodes if node.pool in least_savings}

    def of(self, leaving: Iterable[NodeDetail]) -> float:
        """Return the dollars an hour that a move of these nodes must save. The strictest of their pools counts."""
        if not self._by_node:
            return 0.0
        nodes = list(leaving)
        cost = sum(node.price for node in nodes)
        least_savings = (self._by_node[node.node].of(cost) for node in nodes if node.node in self._by_node)
        return max(least_savings, default=0.0) - _ROUNDING
