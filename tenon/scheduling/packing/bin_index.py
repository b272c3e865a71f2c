"""Finds the new nodes that may take one more pod of a class, for all nodes at once.

A large batch makes a thousand nodes, and most of them are full for most pods. Arrays with one row per node filter them
in a few steps, and only the nodes that pass get the full check. The filter never drops a node that could take the pod.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tenon.scheduling.offerings.template import State, Template
from tenon.scheduling.packing.bins import Bin
from tenon.scheduling.pods.pod_classes import PodClass

_MAX = 2**62
"""The largest amount that a row stores. Larger amounts are capped to it."""


class BinIndex:
    """One row per node, by the node's position in a list."""

    def __init__(self, template: Template, bins: Sequence[Bin] = ()) -> None:
        """Start with these nodes of the template."""
        self._template = template
        self._count = 0
        self._spare = np.zeros((64, len(template.table.names)), dtype=np.int64)
        self._state = np.zeros(64, dtype=np.int32)
        self._floor = np.zeros(64, dtype=np.int32)
        self._hosts: dict[int, npt.NDArray[np.int32]] = {}
        self._states: list[State] = []
        self._known_reaches: dict[tuple[object, ...], npt.NDArray[np.int32]] = {}
        self._numbers: dict[int, int] = {}
        for node in bins:
            self.append(node)

    def append(self, node: Bin) -> None:
        """Add a row for a node."""
        self._count += 1
        if self._count > len(self._state):
            self._grow()
        self.update(self._count - 1, node)

    def update(self, position: int, node: Bin) -> None:
        """Store what the node has left."""
        self._spare[position] = [min(amount, _MAX) for amount in node.spare_amounts()]
        self._floor[position] = node.spot_floor
        number = self._numbers.get(id(node.state))
        if number is None:
            number = self._numbers[id(node.state)] = len(self._states)
            self._states.append(node.state)
        self._state[position] = number
        for group, pods in node.hosts.items():
            column = self._hosts.get(group)
            if column is None:
                column = self._hosts[group] = np.zeros(len(self._state), dtype=np.int32)
            column[position] = pods

    def candidates(self, pod_class: PodClass, start: int = 0) -> list[int]:
        """Positions, from ``start`` on, of nodes that may take a pod of the class, in ascending order."""
        if start >= self._count:
            return []
        reaches = self._reaches(pod_class)
        if reaches is None:
            return []
        rows = slice(start, self._count)
        reach = reaches[self._state[rows]]
        if pod_class.near:  # pods that must share a node may make it less flexible than its row says
            fits = reach >= 0
        else:
            fits = reach >= self._floor[rows]
            spare = self._spare[rows]
            for number, amount in enumerate(pod_class.amounts):
                if amount > 0:
                    fits &= spare[:, number] >= amount
        if pod_class.host is not None:
            self._by_hosts(fits, pod_class, rows)
        positions: list[int] = (fits.nonzero()[0] + start).tolist()
        return positions

    def _reaches(self, pod_class: PodClass) -> npt.NDArray[np.int32] | None:
        """Map each state number to `_reach`; None if no state takes the class."""
        cache_key = (pod_class.terms, pod_class.daemons)
        reaches = self._known_reaches.get(cache_key)
        if reaches is None or len(reaches) < len(self._states):
            before = [] if reaches is None else reaches.tolist()
            added = [self._reach(state, pod_class) for state in self._states[len(before) :]]
            reaches = self._known_reaches[cache_key] = np.array(before + added, dtype=np.int32)
        return reaches if reaches.max() >= 0 else None

    def _reach(self, state: State, pod_class: PodClass) -> int:
        """How many spot types a node in this state may keep after it takes a pod of the class; -1 if it takes none."""
        states = self._template.successors(state, pod_class)
        return max(((after.types & after.market.spot).bit_count() for after in states), default=-1)

    def _by_hosts(self, fits: npt.NDArray[np.bool_], pod_class: PodClass, rows: slice) -> None:
        rules = pod_class.host
        assert rules is not None
        for group in rules.repelled:
            if (holders := self._hosts.get(~group)) is not None:
                fits &= holders[rows] == 0
        for group in rules.needs:
            group_counts = self._hosts.get(group)
            if group_counts is None:
                fits[:] = False
                return
            fits &= group_counts[rows] > 0
        for group, limit in rules.beside_at_most:
            if (group_counts := self._hosts.get(group)) is not None:
                fits &= group_counts[rows] <= limit
        for group, limit in rules.at_most:
            group_counts = self._hosts.get(group)
            if group_counts is not None:
                fits &= group_counts[rows] < limit
            elif limit <= 0:
                fits[:] = False

    def _grow(self) -> None:
        """Double the number of rows."""
        self._spare = np.concatenate([self._spare, np.zeros_like(self._spare)])
        self._state = np.concatenate([self._state, np.zeros_like(self._state)])
        self._floor = np.concatenate([self._floor, np.zeros_like(self._floor)])
        self._hosts = {g: np.concatenate([column, np.zeros_like(column)]) for g, column in self._hosts.items()}
