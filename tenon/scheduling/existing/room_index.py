"""Finds the existing nodes that may take one more pod of a class, for many nodes at once.

Most nodes of a cluster are full for most pods, and a pod with rules between pods is tried in each domain. Arrays with
one column per node filter them in a few steps, and only the nodes that pass get the full check. The filter never drops
a node that could take the pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from tenon.scheduling.existing.existing_nodes import Room
from tenon.scheduling.pods.hostname_rules import HostRules
from tenon.scheduling.pods.pod_classes import Amounts, PodClass

_MAX = 2**62
"""The largest amount that is stored. Larger amounts are capped to it."""
_BLOCK = 512
"""How many nodes are compared at once: the first ones often take the pod."""


class RoomIndex:
    """What each node has left, by its position in a list, and how many pods of each group it has."""

    def __init__(self, rooms: Sequence[Room]) -> None:
        """Read the nodes."""
        self._rooms = rooms
        self._free: npt.NDArray[np.int64] = np.zeros((0, len(rooms)), dtype=np.int64)
        self._hosts: dict[int, npt.NDArray[np.int64]] = {}
        """By group, as in `Counts`: the pods on each node. Groups are added when a class asks for them."""
        self._needs: dict[Amounts, npt.NDArray[np.int64]] = {}
        self.read()

    def read(self) -> None:
        """Read all nodes again, because they changed."""
        self._hosts.clear()
        if self._rooms:
            rows = [[min(amount, _MAX) for amount in room.free] for room in self._rooms]
            self._free = np.ascontiguousarray(np.array(rows, dtype=np.int64).T)

    def update(self, position: int) -> None:
        """Read a node that took pods."""
        room = self._rooms[position]
        self._free[:, position] = [min(amount, _MAX) for amount in room.free]
        for group, pods in self._hosts.items():
            pods[position] = room.hosts.get(group, 0)

    def candidates(self, pod_class: PodClass, start: int = 0) -> Iterator[int]:
        """Yield the positions, from ``start`` on, of nodes that may take a pod of the class, in ascending order.

        A caller that goes on after a node took pods gets positions by what nodes had before.
        """
        need = self._needs.get(pod_class.amounts)
        if need is None:
            rows = [[min(amount, _MAX)] for amount in pod_class.amounts]
            need = self._needs[pod_class.amounts] = np.array(rows, dtype=np.int64)
        for begin in range(start, len(self._rooms), _BLOCK):
            block = slice(begin, begin + _BLOCK)
            fits = np.logical_and.reduce(self._free[:, block] >= need)
            if pod_class.host is not None:
                self._by_hosts(fits, pod_class.host, block)
            for position in fits.nonzero()[0].tolist():
                yield begin + position

    def _by_hosts(self, fits: npt.NDArray[np.bool_], rules: HostRules, block: slice) -> None:
        """Apply `HostRules.room`."""
        for group in rules.repelled:
            fits &= self._pods_of(~group)[block] == 0
        for group in rules.needs:
            fits &= self._pods_of(group)[block] > 0
        for group, limit in rules.beside_at_most:
            fits &= self._pods_of(group)[block] <= limit
        for group, limit in rules.at_most:
            fits &= self._pods_of(group)[block] < limit

    def _pods_of(self, group: int) -> npt.NDArray[np.int64]:
        pods = self._hosts.get(group)
        if pods is None:
            pods = np.array([room.hosts.get(group, 0) for room in self._rooms], dtype=np.int64)
            self._hosts[group] = pods
        return pods
