"""A quick estimate of what the pods of a node would cost on new nodes: the price above which the node wastes money.

It knows resources and ``minValues``, and nothing else of the pods. The engine checks all that it lets through.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tenon.apis import labels
from tenon.disruption.search.consolidation_price import allows
from tenon.kube.pod import Pod
from tenon.resources import CPU, MEMORY
from tenon.scheduling.model import OFFERING_KEYS, InstanceType, Pool
from tenon.scheduling.offerings.burstable import is_burstable

Floats: TypeAlias = npt.NDArray[np.float64]


class PriceEstimate:
    """What the pods of a node would cost at the best price of any type, alone or on a shared node."""

    def __init__(self, names: Sequence[str], pools: Iterable[Pool], *, best_effort: bool = False) -> None:
        """Take the types that the pools sell.

        Args:
            names: the resources that count.
            pools: the NodePools that may launch.
            best_effort: whether new nodes may leave fewer types open than ``minValues`` ask for.
        """
        self._names = names
        self.has_min_values = False
        """Whether new nodes of a NodePool must leave several types open."""
        self.has_only_min_values = True
        """Whether those of all NodePools must."""
        rooms, prices, rooms_with_choice = [self._rooms_of(())], [np.zeros(0)], [self._rooms_of(())]
        steady: list[bool] = []
        for pool in pools:
            kinds, lowest = _sold(pool)
            room, price = self._rooms_of(kinds), np.array(lowest, dtype=np.float64)
            min_values = {} if best_effort else _min_values(pool, kinds)
            self.has_min_values |= bool(min_values)
            self.has_only_min_values &= bool(min_values) or not kinds
            steady += _steady(kinds)
            rooms.append(room)
            prices.append(price)
            rooms_with_choice.append(_with_choice(pool, min_values, kinds, room, price) if min_values else room)
        self._room: Floats = np.concatenate(rooms)
        self._price: Floats = np.concatenate(prices)
        self._room_with_choice: Floats = np.concatenate(rooms_with_choice)
        is_steady = np.array(steady, dtype=bool)
        self._steady_room: Floats = self._room[is_steady]
        self._steady_price: Floats = self._price[is_steady]

    def shared(self, pods: Iterable[Pod]) -> float:
        """Return the price of the share of a node that the pods need, on the type where it is cheapest.

        The engine fills no burstable types with pods of several nodes if it may buy others.
        """
        return _cheapest_share(self._asked(pods), self._steady_room, self._steady_price)

    def shared_with_choice(self, pods: Iterable[Pod]) -> float:
        """Return the price of that share if nodes cost as much as the dearest type that they must leave open.

        A move must save money whichever of its types EC2 launches (DIS-34). One node for all of the pods never costs
        less than this.
        """
        return _cheapest_share(self._asked(pods), self._room_with_choice, self._price)

    def alone(self, pods: Iterable[Pod]) -> float:
        """Return the price of the cheapest type that holds all the pods; infinite if none does."""
        return _cheapest(self._asked(pods), self._room, self._price)

    def of_room(self, room: Mapping[str, int]) -> float:
        """Return the price of the cheapest type with as much CPU and memory; infinite if there is none.

        A full node would not run on a burstable type instead.
        """
        return _cheapest(self._size(room), self._steady_room, self._steady_price)

    def of_room_with_choice(self, room: Mapping[str, int]) -> float:
        """Return the least that the dearest type costs which a node with as much room must leave open."""
        return _cheapest(self._size(room), self._room_with_choice, self._price)

    def _size(self, room: Mapping[str, int]) -> Floats:
        return np.array([room.get(name, 0) if name in (CPU, MEMORY) else 0 for name in self._names], dtype=np.float64)

    def _rooms_of(self, kinds: Sequence[InstanceType]) -> Floats:
        rooms = [[kind.allocatable.get(name, 0) for name in self._names] for kind in kinds]
        return np.array(rooms, dtype=np.float64).reshape(len(rooms), len(self._names))

    def _asked(self, pods: Iterable[Pod]) -> Floats:
        requests = [pod.requests for pod in pods]  # one array for each pod would take most of an estimate's time
        return np.array([sum([request.get(name, 0) for request in requests]) for name in self._names], dtype=np.float64)


def _sold(pool: Pool) -> tuple[list[InstanceType], list[float]]:
    """Return the types that a pool sells, and the lowest price of each."""
    kinds, lowest = [], []
    for kind in pool.instance_types:
        if not pool.requirements.intersects(kind.requirements):
            continue
        if prices := [offering.price for offering in kind.offerings if allows(pool.requirements, offering)]:
            kinds.append(kind)
            lowest.append(min(prices))
    return kinds, lowest


def _steady(kinds: Sequence[InstanceType]) -> list[bool]:
    """Return for each type of a pool whether the engine fills it with steady load: all if all of them are burstable."""
    steady = [not is_burstable(kind) for kind in kinds]
    return steady if any(steady) else [True] * len(kinds)


def _min_values(pool: Pool, kinds: Iterable[InstanceType]) -> dict[str, int]:
    """Return the ``minValues`` about labels of types, which decide how many types a new node must leave open."""
    of_types = {labels.INSTANCE_TYPE}.union(*(kind.requirements for kind in kinds)) - {*OFFERING_KEYS}
    return {
        key: least
        for key, requirement in pool.requirements.items()
        if (least := requirement.min_values or 0) > 1 and key in of_types
    }


def _with_choice(
    pool: Pool, min_values: Mapping[str, int], kinds: Sequence[InstanceType], room: Floats, price: Floats
) -> Floats:
    """Return, for the price of each type, how much room a node has at most if no type that it leaves open costs more.

    Of each resource that is what as many types have as must be open.
    """
    room_with_choice = np.full_like(room, inf)
    by_price = np.argsort(price, kind="stable")
    for key, least in min_values.items():
        largest: dict[str, Floats] = {}  # by value of the label
        for position in by_price:
            for value in filter(pool.requirements[key].has, _values(kinds[position], key)):
                largest[value] = np.maximum(largest.get(value, 0.0), room[position])
            most: Floats | float = 0.0
            if len(largest) >= least:
                most = np.partition(list(largest.values()), -least, axis=0)[-least]
            room_with_choice[position] = np.minimum(room_with_choice[position], most)
    return room_with_choice


def _values(kind: InstanceType, key: str) -> Iterable[str]:
    if key == labels.INSTANCE_TYPE:
        return (kind.name,)
    return kind.requirements[key].members if key in kind.requirements else ()


def _cheapest(amounts: Floats, room: Floats, price: Floats) -> float:
    has_room = (room >= amounts).all(axis=1)
    return float(price[has_room].min(initial=inf))


def _cheapest_share(amounts: Floats, room: Floats, price: Floats) -> float:
    if not amounts.any():
        return 0.0
    parts = np.divide(amounts, room, out=np.where(amounts > 0, inf, np.zeros_like(room)), where=room > 0)
    nodes = parts.max(axis=1)
    holds = np.isfinite(nodes)  # infinitely many nodes that cost nothing have no price
    return float((nodes[holds] * price[holds]).min(initial=inf))
