"""A quick estimate of which nodes could leave because their pods fit on others.

It knows resources, taints and node affinity, and no rules between pods. The engine checks all that it proposes. Without
it, the search would have to ask the engine about every node, and each answer costs as much as a scheduling batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tenon.disruption.nodes import NodeDetail
from tenon.kube.pod import Pod
from tenon.kube.requirements import Requirements
from tenon.kube.taints import Toleration, untolerated
from tenon.scheduling.existing.existing_nodes import Room, rooms_of
from tenon.scheduling.model import Node, Plan, Pool
from tenon.scheduling.pods.pod_classes import combined, resource_names

Floats: TypeAlias = npt.NDArray[np.float64]
Flags: TypeAlias = npt.NDArray[np.bool_]
_Key: TypeAlias = tuple[tuple[Requirements, ...], tuple[Requirements, ...], tuple[Toleration, ...]]
_Amounts: TypeAlias = list[tuple[int, int]]
"""The number of each resource that a pod asks for, and how much of it."""
_Taken: TypeAlias = tuple[int, _Amounts]
"""The place of a room, and what a pod took of it."""


class RoomEstimate:
    """What every node has left, in the order in which nodes should be filled."""

    def __init__(self, nodes: Sequence[Node], pools: Sequence[Pool], details: Mapping[str, NodeDetail]) -> None:
        """Take the nodes with their pods; ``details`` by NodeClaim."""
        pods = [pod for detail in details.values() for pod in detail.pods]
        self.names = resource_names(pods)
        self._rooms: list[Room] = rooms_of(nodes, pools, self.names)
        self._number = {room.name: number for number, room in enumerate(self._rooms)}
        self._open: Flags = np.array([room.open for room in self._rooms], dtype=np.bool_)
        free = np.array([room.free for room in self._rooms], dtype=np.float64)
        self._free: Floats = np.ascontiguousarray(free.reshape(len(self._rooms), len(self.names)).T)
        """By resource, then by room, because a pod is compared with all rooms, and asks for few resources."""
        self._most: dict[str, float] = {
            name: float(row[self._open].max(initial=0.0)) for name, row in zip(self.names, self._free, strict=True)
        }
        """By resource, the most that an open room has at first. What rooms have left only becomes less."""
        self._tainted = any(room.taints for room in self._rooms)
        self._suits: dict[_Key, Flags] = {}
        self._details = details

    def accept(self, claims: Iterable[str], plan: Plan) -> None:
        """Remove nodes and place their pods as in the plan."""
        for claim in claims:
            self._open[self._number[self._details[claim].node]] = False
        for name, pods in plan.placements.items():
            for pod in pods:
                for resource, amount in _amounts(pod, self.names):
                    self._free[resource, self._number[name]] -= amount

    def removable(
        self,
        candidates: Sequence[str],
        settled: Collection[str],
        closed: Collection[str],
        may_take: Callable[[str], bool],
    ) -> list[str]:
        """Return candidates whose pods fit on the nodes that remain after them, first candidates first.

        Args:
            candidates: NodeClaims in the order in which they should leave.
            settled: names of nodes that must stay.
            closed: names of nodes that must take no pods.
            may_take: whether a candidate may leave; it counts those that it lets go.
        """
        own = [self._number[self._details[claim].node] for claim in candidates]
        # fill first what stays, then the candidates from the last
        leaving = set(own)
        order = [*(number for number in range(len(self._rooms)) if number not in leaving), *reversed(own)]
        filling = self._filling(order, (self._number[name] for name in closed))
        position = {number: place for place, number in enumerate(order)}
        busy = {position[self._number[name]] for name in settled if name in self._number}
        removable_claims = []
        for claim, number in zip(candidates, own, strict=True):
            place = position[number]
            if place in busy:
                continue
            was_open = filling.close(place)
            placements = filling.place(self._details[claim].pods)
            if placements is None or not may_take(claim):
                filling.undo(placements or ())
                filling.open[place] = was_open
                continue
            busy.update(where for where, _ in placements)
            removable_claims.append(claim)
        return removable_claims

    def left_over(self, claim: str, closed: Collection[str]) -> list[Pod]:
        """Return the pods of a node that fit on no other node; ``closed``: names of nodes that must take no pods."""
        pods = largest_first(self._details[claim].pods, self.names)
        if not any(map(self._may_fit, pods)):
            return pods
        shut = (self._number[name] for name in (*closed, self._details[claim].node))
        filling = self._filling(range(len(self._rooms)), shut)
        return [pod for pod in pods if not self._may_fit(pod) or filling.place_one(pod) is None]

    def _may_fit(self, pod: Pod) -> bool:
        """Whether no resource alone keeps the pod off every room."""
        return all(pod.requests.get(name, 0) <= most for name, most in self._most.items())

    def _filling(self, order: Sequence[int], closed: Iterable[int]) -> _Filling:
        """Copy what the rooms have left, in this order."""
        places = np.array(order, dtype=np.intp)
        is_open = self._open.copy()
        is_open[list(closed)] = False
        return _Filling(self.names, self._free[:, places], is_open[places], lambda pod: self._suited(pod, places))

    def _suited(self, pod: Pod, order: npt.NDArray[np.intp]) -> Flags | None:
        """Which rooms, in this order, the pod's rules allow; None for all."""
        if not (self._tainted or pod.required_terms or pod.volume_terms):
            return None
        key = (pod.required_terms, pod.volume_terms, pod.tolerations)
        if key not in self._suits:
            terms = combined(pod.required_terms or (Requirements(),), pod.volume_terms)
            self._suits[key] = np.array([_suits(room, terms, pod.tolerations) for room in self._rooms], dtype=np.bool_)
        return self._suits[key][order]


class _Filling:
    """Rooms that are filled on trial, the first that fits first."""

    def __init__(
        self, names: Sequence[str], free: Floats, is_open: Flags, suited: Callable[[Pod], Flags | None]
    ) -> None:
        """``free``: by resource, then by room."""
        self.open = is_open
        self._names = names
        self._free = free
        self._suited = suited
        self._suits: dict[_Key, Flags | None] = {}

    def close(self, place: int) -> bool:
        """Let a room take no pods. Return whether it was open."""
        was_open = bool(self.open[place])
        self.open[place] = False
        return was_open

    def place(self, pods: Sequence[Pod]) -> list[_Taken] | None:
        """Place the pods, largest first. Return what they took, or None, with nothing placed."""
        placements: list[_Taken] = []
        for pod in largest_first(pods, self._names):
            placement = self.place_one(pod)
            if placement is None:
                self.undo(placements)
                return None
            placements.append(placement)
        return placements

    def place_one(self, pod: Pod) -> _Taken | None:
        """Place a pod. Return what it took, or None if it fits nowhere."""
        key = (pod.required_terms, pod.volume_terms, pod.tolerations)
        if key not in self._suits:
            self._suits[key] = self._suited(pod)
        suited = self._suits[key]
        fits = self.open if suited is None else self.open & suited
        amounts = _amounts(pod, self._names)
        for resource, amount in amounts:
            fits = fits & (self._free[resource] >= amount)
        position = int(fits.argmax())
        if not fits[position]:
            return None
        for resource, amount in amounts:
            self._free[resource, position] -= amount
        return position, amounts

    def undo(self, placements: Iterable[_Taken]) -> None:
        """Give back what pods took."""
        for position, amounts in placements:
            for resource, amount in amounts:
                self._free[resource, position] += amount


def largest_first(pods: Iterable[Pod], names: Sequence[str]) -> list[Pod]:
    """Sort pods by the first of these resources, which counts most."""
    return sorted(pods, key=lambda pod: pod.requests.get(names[0], 0), reverse=True)


def _amounts(pod: Pod, names: Sequence[str]) -> _Amounts:
    return [(number, amount) for number, name in enumerate(names) if (amount := pod.requests.get(name, 0))]


def _suits(room: Room, terms: Sequence[Requirements], tolerations: Sequence[Toleration]) -> bool:
    return untolerated(tolerations, room.taints) is None and any(map(room.meets, terms))
