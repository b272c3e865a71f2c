"""Place pods on nodes that exist or are on their way, before anything is bought."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tenon.apis import labels
from tenon.scheduling.model import Node, Pod, Pool, Taint
from tenon.scheduling.pod_classes import Amounts, PodClass, Port, ports_clash
from tenon.scheduling.requirements import Requirement, Requirements


class Room:
    """What a node still has for pods."""

    __slots__ = ("_suits", "free", "name", "placed", "ports", "settled", "taints", "values")

    def __init__(self, node: Node, names: tuple[str, ...], startup_taints: Iterable[Taint]) -> None:
        self.name = node.name
        self.free = [node.allocatable.get(name, 0) - node.used.get(name, 0) for name in names]
        self.ports: list[Port] = list(node.host_ports)
        self.taints = lasting_taints(node, startup_taints)
        known = {labels.ALIASES.get(key, key): value for key, value in node.labels.items()}
        self.values = Requirements.from_labels(known)
        if node.requirements is not None:
            self.values = node.requirements.with_(self.values)
        self.settled = node.requirements is None
        self.placed: list[Pod] = []
        self._suits: dict[tuple[object, ...], bool] = {}

    def take(self, pod_class: PodClass, start: int) -> int:
        """Place as many of the class's pods from number ``start`` on as fit; how many that was."""
        count = self._count(pod_class.amounts, len(pod_class.pods) - start)
        if not count or not self._suited(pod_class):
            return 0
        if pod_class.ports:
            if ports_clash(pod_class.ports, self.ports):
                return 0
            self.ports.extend(pod_class.ports)
            count = 1
        self.free = [free - count * asked for free, asked in zip(self.free, pod_class.amounts, strict=True)]
        self.placed.extend(pod_class.pods[start : start + count])
        return count

    def _count(self, amounts: Amounts, most: int) -> int:
        for free, asked in zip(self.free, amounts, strict=True):
            if asked > 0:
                most = min(most, free // asked)
                if most <= 0:
                    return 0
        return most

    def _suited(self, pod_class: PodClass) -> bool:
        key = (pod_class.terms, pod_class.tolerations)
        if key not in self._suits:
            self._suits[key] = pod_class.tolerates(self.taints) and any(map(self._meets, pod_class.terms))
        return self._suits[key]

    def _meets(self, term: Requirements) -> bool:
        return all(self._is_certain(requirement) for requirement in term.values())

    def _is_certain(self, wanted: Requirement) -> bool:
        """Whether the requirement holds whatever the labels that are not settled yet turn out to be."""
        if wanted.key not in self.values:
            return wanted.may_be_absent and (self.settled or wanted.key not in labels.WELL_KNOWN)
        mine = self.values[wanted.key]
        if not mine.complement:
            return all(map(wanted.has, mine.members)) and (bool(mine.members) or wanted.may_be_absent)
        narrowed = mine.intersection(wanted)
        return (narrowed.complement, narrowed.members, narrowed.gte, narrowed.lte) == (
            mine.complement,
            mine.members,
            mine.gte,
            mine.lte,
        )


def lasting_taints(node: Node, startup_taints: Iterable[Taint]) -> tuple[Taint, ...]:
    """The taints that stay: a starting node sheds its startup taints and those of a node not yet ready."""
    if node.initialized:
        return node.taints
    startup = {(taint.key, taint.effect) for taint in startup_taints}
    return tuple(
        taint
        for taint in node.taints
        if (taint.key, taint.effect) not in startup and not labels.is_ephemeral_taint(taint.key, taint.effect)
    )


def place(
    classes: Sequence[PodClass], nodes: Iterable[Node], pools: Iterable[Pool], names: tuple[str, ...]
) -> tuple[Mapping[str, tuple[Pod, ...]], list[int]]:
    """Pods newly placed by node name, and how many of each class have found a place."""
    startup = {pool.name: pool.startup_taints for pool in pools}
    ordered = sorted(nodes, key=lambda node: (not node.initialized, node.name))
    rooms = [Room(node, names, startup.get(node.labels.get(labels.NODEPOOL, ""), ())) for node in ordered]
    rooms = [room for room in rooms if min(room.free) >= 0]
    placed = []
    for pod_class in classes:
        cpu, total, done = pod_class.amounts[0], len(pod_class.pods), 0
        for room in rooms:
            if room.free[0] >= cpu:
                # pods of one class that share a host port go to one node each
                done += room.take(pod_class, done)
                if done == total:
                    break
        placed.append(done)
    return {room.name: tuple(room.placed) for room in rooms if room.placed}, placed
