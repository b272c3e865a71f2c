"""A NodePool's limits while a batch is planned.

The pool must stay within its limits, whichever listed type a claim becomes. During packing, each node counts with its
cheapest type. At the end the nodes share what is left, so that claims list larger types only as far as limits allow.
"""

from __future__ import annotations

from collections.abc import Mapping

from tenon.resources import NODES
from tenon.scheduling.model import Pool
from tenon.scheduling.offerings.type_table import TypeTable

RESERVATION = "capacity-reservation/"
"""Prefix of the pseudo-resources that limit the number of nodes in a capacity reservation."""
COMMITMENT = "commitment/"
"""Prefix of the pseudo-resources that limit what nodes use up of a Savings Plan or of Reserved Instances."""
OF_THE_ACCOUNT = (RESERVATION, COMMITMENT)
"""Prefixes of the limits that pools share, and that are never dropped."""


class Limits:
    """What a pool may still launch. Each packing works on its own copy."""

    __slots__ = ("_table", "remaining", "unlimited")

    def __init__(self, pool: Pool, table: TypeTable, remaining: Mapping[str, int] | None = None) -> None:
        """Start from the pool's limits less its usage, or from ``remaining``."""
        self._table = table
        limits = pool.limits or {}
        if remaining is None:
            remaining = {name: limit - pool.usage.get(name, 0) for name, limit in sorted(limits.items())}
        self.remaining = dict(remaining)
        self.unlimited = not self.remaining

    def out_of_reach(self, nodes: int) -> bool:
        """Whether this many nodes of the largest type stay within the pool's limits."""
        every = self._table.every
        return all(
            amount >= nodes * (1 if name == NODES else self._table.largest_capacity(name, every))
            for name, amount in self.remaining.items()
            if not name.startswith(OF_THE_ACCOUNT)
        )

    def drop(self) -> None:
        """Drop the pool's limits, but not those of the account, so that packing may repeat identical nodes."""
        self.remaining = {name: amount for name, amount in self.remaining.items() if name.startswith(OF_THE_ACCOUNT)}
        self.unlimited = not self.remaining

    def copy(self, pool: Pool) -> Limits:
        """An independent copy."""
        return Limits(pool, self._table, self.remaining)

    def allowed(self, types: int) -> int:
        """The types that one more node may have."""
        for name, amount in self.remaining.items():
            if counts_nodes(name):
                types = types if amount >= 1 else 0
            elif types:
                types &= self._table.within(name, amount) if amount >= 0 else 0
        return types

    def not_above(self, types: int, bounds: Mapping[str, int]) -> int:
        """The types whose capacity is within the bounds."""
        for name, amount in bounds.items():
            types &= self._table.within(name, amount)
        return types

    def peak(self, types: int) -> dict[str, int]:
        """The most that a node uses of each limited resource, whichever of the types it becomes."""
        return {name: self._table.largest_capacity(name, types) for name in self.remaining if not counts_nodes(name)}

    def take(self, amounts: Mapping[str, int], nodes: int = 1) -> None:
        """Subtract ``nodes`` nodes that have these amounts in total. Negative figures give back."""
        for name in self.remaining:
            self.remaining[name] -= nodes if counts_nodes(name) else amounts.get(name, 0)

    def share(self, waiting_nodes: int, others: Mapping[str, int]) -> dict[str, int]:
        """Divide what is left equally among ``waiting_nodes`` nodes and, by limit, those of ``others``."""
        return {
            name: max(0, amount) // (waiting_nodes + others.get(name, 0))
            for name, amount in self.remaining.items()
            if not counts_nodes(name)
        }


def counts_nodes(name: str) -> bool:
    """Whether a limit is on the number of nodes, not on a resource of their types."""
    return name == NODES or name.startswith(RESERVATION)
