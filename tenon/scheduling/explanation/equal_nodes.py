"""How many nodes of one instance type would hold the pods of a claim, to tell what they would usually cost.

A plan puts many pods on one large node when EC2 refuses all small ones. Then no refused type may hold them alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from tenon.kube.pod import Pod
from tenon.resources import CPU, MEMORY, Resources, subtract, total
from tenon.scheduling.model import PlannedClaim

MAX_KINDS = 50
"""Pods with more different requests are not divided, because a plan must not take longer in a shortage."""


class Division:
    """The pods of a claim, for a division among nodes of one type."""

    def __init__(self, claim: PlannedClaim) -> None:
        self._daemons = subtract(claim.requests, total(pod.requests for pod in claim.pods))
        kinds = Counter(tuple(sorted(pod.requests.items())) for pod in claim.pods)
        self._kinds = sorted(((dict(amounts), count) for amounts, count in kinds.items()), key=_size, reverse=True)
        self._divisible = len(self._kinds) <= MAX_KINDS and not _belong_together(claim.pods)

    def nodes(self, room: Resources, max_nodes: int) -> int | None:
        """Return how many nodes with this room hold the pods; None if it is more than ``max_nodes``, or impossible."""
        if not self._divisible or not self._kinds:
            return None
        empty = subtract(room, self._daemons)
        free_amounts: list[Resources] = []
        for amounts, count in self._kinds:
            unplaced = count
            for place, free in enumerate(free_amounts):
                placed_pods = min(unplaced, _times(amounts, free))
                free_amounts[place] = _without(free, amounts, placed_pods)
                unplaced -= placed_pods
            pods_per_node = _times(amounts, empty)
            if unplaced and not pods_per_node:
                return None
            while unplaced:
                if len(free_amounts) == max_nodes:
                    return None
                placed_pods = min(unplaced, pods_per_node)
                free_amounts.append(_without(empty, amounts, placed_pods))
                unplaced -= placed_pods
        return len(free_amounts)


def _belong_together(pods: Iterable[Pod]) -> bool:
    return any(pod.rules.affinity for pod in pods)


def _size(kind: tuple[Mapping[str, int], int]) -> tuple[int, int]:
    amounts, _ = kind
    return amounts.get(CPU, 0), amounts.get(MEMORY, 0)


def _times(amounts: Mapping[str, int], free: Resources) -> int:
    """How many pods with these requests fit."""
    return max(0, min((free.get(name, 0) // units for name, units in amounts.items() if units > 0), default=0))


def _without(free: Resources, amounts: Mapping[str, int], count: int) -> Resources:
    return {name: units - count * amounts.get(name, 0) for name, units in free.items()} if count else free
