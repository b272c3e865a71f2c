"""The types that a node in some state may have, as arrays with one row per type, to compare all types at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tenon.scheduling.offerings import burstable
from tenon.scheduling.offerings.template import SPOT_FLEXIBILITY, State, Template

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
        floor = (state.types & state.market.spot).bit_count() >= SPOT_FLEXIBILITY
        key = (types, tuple(state.groups), template.burstable, template.node_charge, floor)
        arrays = state.market.menus.get(key)
        if not isinstance(arrays, _Arrays):
            arrays = state.market.menus[key] = _arrays(template, state, types, floor)
        self.numbers, self.room, self.price = arrays.numbers, arrays.room, arrays.price
        self._full = arrays.full

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


@dataclass(frozen=True, slots=True)
class _Arrays:
    """What plans with the same table share: the numbers of types, their room and price, and the whole room of those
    that are sold on spot, if a node must keep enough of these.
    """

    numbers: Numbers
    room: Floats
    price: Floats
    full: Floats


def _arrays(template: Template, state: State, types: int, floor: bool) -> _Arrays:
    table, best = template.table, state.market.best
    numbers = positions(types, len(table.types))
    room = table.rooms[numbers]
    for group_types, overhead in state.groups:
        if any(overhead):
            rows = np.isin(numbers, positions(group_types & types, len(table.types)))
            least_room = table.rooms[numbers[rows]] - np.array(overhead, dtype=np.float64)
            room[rows] = np.minimum(room[rows], least_room)
    price = np.array([best[number][0] for number in numbers.tolist()]) + template.node_charge
    spot = np.isin(numbers, positions(types & state.market.spot, len(table.types)))
    full = room[spot & floor]
    for row in np.flatnonzero(np.isin(numbers, positions(template.burstable, len(table.types)))):
        room[row, 0] = min(room[row, 0], burstable.baseline_millicores(table.types[numbers[row]]))
    return _Arrays(numbers, room, price, full)


def nodes_needed(room: Floats, totals: Floats) -> Floats:
    """The number of nodes of each type (rows) that each of the totals (columns) needs, as fractions."""
    needed: Floats = np.zeros((len(room), len(totals)))
    for number in np.flatnonzero((totals > 0).any(axis=0)).tolist():
        amounts, available = totals[:, number], room[:, number, None]
        with np.errstate(divide="ignore", invalid="ignore"):  # types without the resource
            nodes = np.where(available > 0, amounts / available, np.inf)
        np.maximum(needed, np.where(amounts > 0, nodes, 0.0), out=needed)
    return needed


def _parts(room: Floats, total: Floats, largest: Floats) -> Floats:
    parts = np.full(len(room), MAX_PART)
    for number, amount in enumerate(total.tolist()):
        if amount > 0:
            np.minimum(parts, room[:, number] / amount, out=parts)
        parts[room[:, number] < largest[number]] = 0.0
    return parts


def positions(types: int, count: int) -> Numbers:
    """The positions of the types in a set of at most ``count``, in ascending order."""
    bits = np.frombuffer(types.to_bytes((count + 7) // 8, "little"), dtype=np.uint8)
    return np.flatnonzero(np.unpackbits(bits, bitorder="little"))


def type_set(numbers: Sequence[int]) -> int:
    """The set of the types at these positions, of which there is at least one."""
    bits = np.zeros(max(numbers) + 1, dtype=np.uint8)
    bits[numbers] = 1
    return int.from_bytes(np.packbits(bits, bitorder="little").tobytes(), "little")
