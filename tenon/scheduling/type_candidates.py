"""The types that a node in some state may have, as arrays with one row per type, to compare all types at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tenon.scheduling import burstable
from tenon.scheduling.template import SPOT_FLEXIBILITY, State, Template

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]


MAX_PART = 1e6
"""Caps how often a node holds a load, for loads that request nothing."""


class TypeCandidates:
    """The types of a state, with the room for pods and the price of each. Nothing changes the arrays."""

    @classmethod
    def of(cls, template: Template, state: State, permitted: int) -> TypeCandidates:
        """Return the state's types that are permitted, made once for all packings of a template."""
        menu = state.menus.get(permitted)
        if not isinstance(menu, cls):
            menu = state.menus[permitted] = cls(template, state, permitted)
        return menu

    def __init__(self, template: Template, state: State, permitted: int) -> None:
        """Take the state's types that are permitted. Burstable types offer only their baseline CPU."""
        self.state = state
        types = state.types & permitted
        self.numbers = positions(types, len(template.table.types))
        self.room = template.table.rooms[self.numbers]
        for group_types, overhead in state.groups:
            if any(overhead):
                rows = np.isin(self.numbers, positions(group_types & types, len(template.table.types)))
                least_room = template.table.rooms[self.numbers[rows]] - np.array(overhead, dtype=np.float64)
                self.room[rows] = np.minimum(self.room[rows], least_room)
        best = state.market.best
        self.price = np.array([best[number][0] for number in self.numbers.tolist()]) + template.node_charge
        spot = np.isin(self.numbers, positions(types & state.market.spot, len(template.table.types)))
        floor = (state.types & state.market.spot).bit_count() >= SPOT_FLEXIBILITY
        self._full = self.room[spot & floor]
        for row in np.flatnonzero(np.isin(self.numbers, positions(template.burstable, len(template.table.types)))):
            baseline = burstable.baseline_millicores(template.table.types[self.numbers[row]])
            self.room[row, 0] = min(self.room[row, 0], baseline)

    def parts(self, total: Floats, largest: Floats) -> Floats:
        """For each type, the part of a load that one node holds; 0 if the largest pods do not fit.

        A node that may be bought on spot is filled only as far as enough other spot types could hold.
        """
        parts = _parts(self.room, total, largest)
        if self._full.size:
            flexible = np.sort(_parts(self._full, total, largest))[::-1]
            flexible = flexible[flexible > 0][:SPOT_FLEXIBILITY]
            if flexible.size:
                parts = np.minimum(parts, flexible[-1])
        return parts


def nodes_needed(room: Floats, totals: Floats) -> Floats:
    """The number of nodes of each type (rows) that each of the totals (columns) needs, as fractions."""
    shape = (len(room), len(totals), room.shape[1])
    needed = np.divide(totals[None], room[:, None], out=np.full(shape, np.inf), where=room[:, None] > 0)
    needed[np.broadcast_to(totals[None] <= 0, shape)] = 0
    max_needed: Floats = needed.max(axis=2)
    return max_needed


def _parts(room: Floats, total: Floats, largest: Floats) -> Floats:
    is_requested = total > 0
    parts: Floats = (room[:, is_requested] / total[is_requested]).min(axis=1, initial=MAX_PART)
    return np.where((room >= largest).all(axis=1), parts, 0.0)


def positions(types: int, count: int) -> Numbers:
    """The positions of the types in a set of at most ``count``, in ascending order."""
    bits = np.frombuffer(types.to_bytes((count + 7) // 8, "little"), dtype=np.uint8)
    return np.flatnonzero(np.unpackbits(bits, bitorder="little"))


def type_set(numbers: Sequence[int]) -> int:
    """The set of the types at these positions, of which there is at least one."""
    bits = np.zeros(max(numbers) + 1, dtype=np.uint8)
    bits[numbers] = 1
    return int.from_bytes(np.packbits(bits, bitorder="little").tobytes(), "little")
