"""Rules about pods on one and the same node: hostname spread, affinity and anti-affinity.

Whether a node may take one more pod depends on that node alone, so nodes carry their own counts and pods with such
rules are still placed in bulk. A new node can always be launched, so the smallest count of hosts is 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

UNBOUNDED = 1 << 40

Counts = dict[int, int]
"""Pods on a node that a group counts, by its number; under ``~number`` those that hold its anti-affinity."""


@dataclass(frozen=True, slots=True)
class HostRules:
    """What pods of one class ask of the pods beside them; groups are given by number."""

    counted: tuple[int, ...] = ()
    """Groups that count the pods."""
    holds: tuple[int, ...] = ()
    """Groups whose anti-affinity the pods hold."""
    at_most: tuple[tuple[int, int], ...] = ()
    """(group, pods of it that a node may have in the end); the pods count themselves."""
    beside_at_most: tuple[tuple[int, int], ...] = ()
    """(group, pods of it that a node may have already); the pods do not count themselves."""
    repelled: tuple[int, ...] = ()
    """Groups whose holders keep the pods away."""
    needs: tuple[int, ...] = ()
    """Groups that must be on the node already."""

    def room(self, counts: Mapping[int, int]) -> int:
        """How many more of the pods a node with these counts may take, resources aside."""
        for group in self.repelled:
            if counts.get(~group):
                return 0
        for group in self.needs:
            if not counts.get(group):
                return 0
        for group, most in self.beside_at_most:
            if counts.get(group, 0) > most:
                return 0
        room = UNBOUNDED
        for group, most in self.at_most:
            room = min(room, most - counts.get(group, 0))
        return max(0, room)

    def put(self, counts: Counts, pods: int) -> None:
        """Count pods that were placed."""
        for group in self.counted:
            counts[group] = counts.get(group, 0) + pods
        for group in self.holds:
            counts[~group] = counts.get(~group, 0) + pods
