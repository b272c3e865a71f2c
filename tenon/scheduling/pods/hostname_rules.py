"""Rules about pods on the same node: hostname spread, affinity and anti-affinity.

Whether a node may take one more pod depends on that node alone, so nodes carry their own counts, and pods with such
rules are still placed in bulk. A new node can always be launched, so the smallest count among hosts is 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

UNBOUNDED = 1 << 40

Counts = dict[int, int]
"""Pods on a node, by the number of the group that counts them; under ``~number``, pods with that anti-affinity."""


@dataclass(frozen=True, slots=True)
class DaemonRules:
    """What pods of one class require of the DaemonSets' pods that come to their node with it.

    A number is a group that counts such a pod; ``~number`` is a group that such a pod has anti-affinity to.
    """

    avoided: frozenset[int] = frozenset()
    needed: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class HostRules:
    """What pods of one class require of other pods on their node. Groups are given by number."""

    counted: tuple[int, ...] = ()
    """Groups that count the pods."""
    holds: tuple[int, ...] = ()
    """Groups that the pods' own anti-affinity is about."""
    at_most: tuple[tuple[int, int], ...] = ()
    """(group, how many of its pods a node may have in the end). The group counts these pods too."""
    beside_at_most: tuple[tuple[int, int], ...] = ()
    """(group, how many of its pods a node may already have). The group does not count these pods."""
    repelled: tuple[int, ...] = ()
    """Groups that count the pods: other pods with anti-affinity to such a group keep these pods away."""
    needs: tuple[int, ...] = ()
    """Groups that must already have a pod on the node."""

    def room(self, counts: Mapping[int, int]) -> int:
        """How many more of the pods a node with these counts may take, regardless of resources."""
        for group in self.repelled:
            if counts.get(~group):
                return 0
        for group in self.needs:
            if not counts.get(group):
                return 0
        for group, limit in self.beside_at_most:
            if counts.get(group, 0) > limit:
                return 0
        room = UNBOUNDED
        for group, limit in self.at_most:
            room = min(room, limit - counts.get(group, 0))
        return max(0, room)

    def put(self, counts: Counts, pods: int) -> None:
        """Count pods that were placed."""
        for group in self.counted:
            counts[group] = counts.get(group, 0) + pods
        for group in self.holds:
            counts[~group] = counts.get(~group, 0) + pods
