"""An index of instance types: which types allow, sell or hold what is asked, for all types at once.

A set of types is an integer with one bit per type, in the order of their names. A query over a thousand types then
costs a few operations on long integers, which makes plain Python fast enough to plan large batches.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tenon.apis import labels
from tenon.kube.offerings import OfferingKey
from tenon.kube.requirements import Requirement, Requirements
from tenon.scheduling.model import OFFERING_KEYS, InstanceType, Offering
from tenon.scheduling.pods.pod_classes import Amounts

TYPE_KEYS = frozenset(
    (labels.AWS_INSTANCE_LABELS | {labels.INSTANCE_TYPE, labels.ARCH, labels.OS, labels.WINDOWS_BUILD, labels.REGION})
    - set(OFFERING_KEYS)
)
"""Well-known labels that a node gets from its instance type or not at all."""


MAX_ANSWERS = 20_000
"""How many answers a table may remember to be used again for a later problem."""

OrderedBlock = tuple[int, tuple[int, ...]]
"""Some types as a set, and by price. An order of hundreds of types consists of blocks: a look-up passes over most."""
_Members = tuple[tuple[str, ...], tuple[int, ...]]
"""Resource names, and the ids of instance types."""


class Sale(NamedTuple):
    """An offering with its price. It sorts by price, with ties broken by name."""

    price: float
    instance_type: str
    zone: str
    capacity_type: str

    @property
    def key(self) -> OfferingKey:
        """The offering without its price."""
        return OfferingKey(self.capacity_type, self.instance_type, self.zone)


@dataclass(frozen=True, slots=True, eq=False)
class Market:
    """The offerings that a choice of zones and capacity types leaves."""

    types: int
    spot: int
    """The types that are sold on spot."""
    best: dict[int, Sale]
    """The cheapest sale of each type."""
    by_offer: dict[int, int]
    """The types sold on each offer (a zone and capacity type), by the offer's number."""
    orders: dict[int, tuple[OrderedBlock, ...]] = field(default_factory=dict)
    """Sets of types by price, as far as they were asked for."""
    targets: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Of a set of types, those worth filling (`Template.targets`), as far as they were asked for."""
    menus: dict[tuple[object, ...], object] = field(default_factory=dict)
    """Of a set of types, their room and prices as arrays (`TypeCandidates`), as far as they were asked for."""


class TypeTable:
    """The index of a list of instance types, for the resources in ``names``."""

    def __init__(self, types: Sequence[InstanceType], names: tuple[str, ...]) -> None:
        """Index the types. Types with a negative allocatable amount cannot hold pods and are left out."""
        usable = [(t, t.allocatable) for t in sorted(types, key=lambda t: t.name)]
        usable = [(t, remaining) for t, remaining in usable if not any(units < 0 for units in remaining.values())]
        self.types = [t for t, _ in usable]
        self.names = names
        self.known_labels = labels.WELL_KNOWN.union(
            key
            for t, _ in usable
            for key, requirement in t.requirements.items()
            if key not in labels.WELL_KNOWN and requirement.members and not requirement.complement
        )
        """Labels that nodes have although no pool sets them: well-known ones, and those that some type defines."""
        self.room: list[Amounts] = [tuple(remaining.get(name, 0) for name in names) for _, remaining in usable]
        self.rooms = np.array(self.room, dtype=np.float64).reshape(len(usable), len(names))
        """`room` as an array."""
        self.every = (1 << len(usable)) - 1
        self._rooms = [_Scale([room[i] for room in self.room]) for i in range(len(names))]
        self._capacities: dict[str, _Scale] = {}
        self._capacity_arrays: dict[str, npt.NDArray[np.float64]] = {}
        self._values: dict[str, dict[str | None, int]] = {}
        self._allowing: dict[Requirement, int] = {}
        self._markets: dict[tuple[int, ...], Market] = {}
        self._ceilings: dict[tuple[int, int], tuple[int, ...]] = {}

    @property
    def answers(self) -> int:
        """How many answers it remembers, which take memory. A market takes as much as a hundred others, and an order of
        types or their room as much as ten.
        """
        markets = self._markets.values()
        orders = sum(len(market.orders) + len(market.targets) + len(market.menus) for market in markets)
        return len(self._allowing) + len(self._ceilings) + 100 * len(self._markets) + 10 * orders

    def allowing(self, requirements: Requirements) -> int:
        """Types that satisfy the requirements, regardless of zone, capacity type and other offering labels."""
        allowed_types = self.every
        for key, requirement in requirements.items():
            if key in OFFERING_KEYS:
                continue
            types = self._allowing.get(requirement)
            if types is None:
                types = self._allowing[requirement] = self._allow(requirement)
            allowed_types &= types
        return allowed_types

    def market(self, requirements: Requirements) -> Market:
        """What is on sale for a node with these requirements."""
        offering_requirements = [requirements[key] for key in OFFERING_KEYS if key in requirements]
        offer_numbers = tuple(
            n for n, (offer, _) in enumerate(self._offers) if all(map(offer.__getitem__, offering_requirements))
        )
        if offer_numbers not in self._markets:
            best: dict[int, Sale] = {}
            by_offer: dict[int, int] = {}
            for number in offer_numbers:
                _, sales = self._offers[number]
                by_offer[number] = sum(1 << index for index in sales)
                for index, sale in sales.items():
                    if index not in best or sale < best[index]:
                        best[index] = sale
            spot = 0
            for number, types in by_offer.items():
                spot |= types if self._offers[number][0].capacity_type == labels.SPOT else 0
            self._markets[offer_numbers] = Market(sum(1 << index for index in best), spot, best, by_offer)
        return self._markets[offer_numbers]

    def holding(self, number: int, amount: int) -> int:
        """Types with at least this amount of resource ``number`` for pods."""
        return self._rooms[number].at_least(amount)

    def largest(self, number: int, types: int) -> int:
        """The largest amount of resource ``number`` among the types; 0 if there are no types."""
        return self._rooms[number].largest(types)

    def ceilings(self, types: int, least: int = 1) -> tuple[int, ...]:
        """For each resource, the largest amount that at least ``least`` of the types have."""
        cached = self._ceilings.get((types, least))
        if cached is None:
            cached = tuple(scale.largest(types, least) for scale in self._rooms)
            self._ceilings[types, least] = cached
        return cached

    def within(self, name: str, amount: int) -> int:
        """Types whose whole capacity of a resource is at most this amount."""
        return self.every & ~self._capacity(name).at_least(amount + 1)

    def largest_capacity(self, name: str, types: int) -> int:
        """The largest whole capacity of a resource among the types."""
        return self._capacity(name).largest(types)

    def capacities(self, name: str) -> npt.NDArray[np.float64]:
        """The whole capacity of a resource, of every type."""
        if name not in self._capacity_arrays:
            self._capacity_arrays[name] = np.array([t.capacity.get(name, 0) for t in self.types], dtype=np.float64)
        return self._capacity_arrays[name]

    def values_of(self, key: str, types: int, requirement: Requirement) -> int:
        """How many of the label values that the requirement allows the types offer."""
        index = self._index(key)
        return sum(
            1 for v, value_types in index.items() if v is not None and value_types & types and requirement.has(v)
        )

    def decides(self, key: str) -> bool:
        """Whether a node gets this label from its type or its offering, not from its pool."""
        return key in OFFERING_KEYS or key in TYPE_KEYS or set(self._index(key)) != {None}

    def labels_of(self, key: str, types: int, requirement: Requirement) -> set[str]:
        """The values of a label that the types have and the requirement allows."""
        index = self._index(key)
        return {v for v, value_types in index.items() if v is not None and value_types & types and requirement.has(v)}

    def offer_value(self, offer: int, key: str) -> str:
        """The value of an offering label for an offer, given by its number; empty if the offer has none."""
        return self._offers[offer][0].value(key)

    def zones_of(self, key: str, types: int, requirements: Requirements) -> int:
        """How many values of an offering label are on sale for the types."""
        offering_requirements = [requirements[k] for k in OFFERING_KEYS if k in requirements]
        return len(
            {
                offer.value(key)
                for offer, sales in self._offers
                if offer.value(key)
                and all(map(offer.__getitem__, offering_requirements))
                and any(types >> i & 1 for i in sales)
            }
        )

    def _capacity(self, name: str) -> _Scale:
        if name not in self._capacities:
            self._capacities[name] = _Scale([t.capacity.get(name, 0) for t in self.types])
        return self._capacities[name]

    def _index(self, key: str) -> dict[str | None, int]:
        """Map each value of a label to the types that may have it. None maps to types without the label."""
        if key not in self._values:
            index: dict[str | None, int] = {}
            for number, instance_type in enumerate(self.types):
                requirement = instance_type.requirements.get(key) if key in instance_type.requirements else None
                if requirement is None and key == labels.INSTANCE_TYPE:
                    values: Sequence[str | None] = (instance_type.name,)
                else:
                    values = requirement.values if requirement is not None and not requirement.complement else ()
                for value in values or (None,):
                    index[value] = index.get(value, 0) | 1 << number
            self._values[key] = index
        return self._values[key]

    def _allow(self, requirement: Requirement) -> int:
        index = self._index(requirement.key)
        if set(index) == {None} and requirement.key not in TYPE_KEYS:
            return self.every  # a label that only the pool sets; types do not affect it
        allowed_types = index.get(None, 0) if requirement.may_be_absent else 0
        for value, value_types in index.items():
            if value is not None and requirement.has(value):
                allowed_types |= value_types
        return allowed_types

    @cached_property
    def _offers(self) -> list[tuple[_Offer, dict[int, Sale]]]:
        """Available offerings, grouped by the labels that they determine, with the best price for each type.

        They are read when a market is asked for first: a lower bound asks for none.
        """
        sales_by_offer: dict[tuple[str, ...], tuple[_Offer, dict[int, Sale]]] = {}
        for number, instance_type in enumerate(self.types):
            for offering in instance_type.offerings:
                if not offering.available:
                    continue
                key = offering.values
                offer_and_sales = sales_by_offer.get(key)
                if offer_and_sales is None:
                    offer_and_sales = sales_by_offer[key] = (_Offer(offering), {})
                sales = offer_and_sales[1]
                sale = Sale(offering.price, instance_type.name, offering.zone, offering.capacity_type)
                if number not in sales or sale < sales[number]:
                    sales[number] = sale
        return [sales_by_offer[key] for key in sorted(sales_by_offer)]


class TypeTables:
    """One `TypeTable` for each list of instance types and resource names."""

    def __init__(self, earlier: TypeTables | None = None) -> None:
        """Start without tables.

        ``earlier``: tables that are used again for lists of the same objects. Only those that ``earlier`` was asked for
        itself count, so a series of these does not grow.
        """
        self._tables: dict[tuple[int, tuple[str, ...]], tuple[Sequence[InstanceType], TypeTable]] = {}
        self._members: dict[_Members, tuple[Sequence[InstanceType], TypeTable]] = {}
        self._earlier = {} if earlier is None else earlier._members
        self._derived: dict[tuple[int, str], tuple[Sequence[InstanceType], Sequence[InstanceType]]] = {}

    @property
    def used(self) -> bool:
        """Whether a table was asked for."""
        return bool(self._members)

    def of(self, types: Sequence[InstanceType], names: tuple[str, ...]) -> TypeTable:
        """Return the table of a list, which must not change afterwards."""
        key = (id(types), names)
        types_and_table = self._tables.get(key)
        if types_and_table is None:
            # with the list, so that its id and those of its members stay their own
            types_and_table = self._tables[key] = (types, self._of_members(types, names))
        return types_and_table[1]

    def any_of(self, types: Sequence[InstanceType]) -> TypeTable:
        """Return a table of a list for questions about its offerings, for which the resource names do not matter."""
        tables = (table for (list_id, _), (_, table) in self._tables.items() if list_id == id(types))
        return next(tables, None) or self.of(types, ())

    def derived(
        self, types: Sequence[InstanceType], purpose: str, make: Callable[[], Sequence[InstanceType]]
    ) -> Sequence[InstanceType]:
        """Return what ``make`` makes of a list, the same for each call with the list and the ``purpose``."""
        key = (id(types), purpose)
        lists = self._derived.get(key)
        if lists is None:
            lists = self._derived[key] = (types, make())  # with the list, so that its id stays its own
        return lists[1]

    def _of_members(self, types: Sequence[InstanceType], names: tuple[str, ...]) -> TypeTable:
        key = (names, tuple(map(id, types)))
        types_and_table = self._members.get(key) or self._earlier.get(key)
        if types_and_table is None or types_and_table[1].answers > MAX_ANSWERS:
            types_and_table = (types, TypeTable(types, names))
        self._members[key] = types_and_table
        return types_and_table[1]


class _Offer:
    """A zone, capacity type, zone ID and reservation that are sold together."""

    __slots__ = ("_answers", "capacity_type", "values")

    def __init__(self, offering: Offering) -> None:
        self.capacity_type = offering.capacity_type
        self.values = offering.values
        self._answers: dict[Requirement, bool] = {}

    def value(self, key: str) -> str:
        return self.values[OFFERING_KEYS.index(key)]

    def __getitem__(self, requirement: Requirement) -> bool:
        """Whether the requirement allows this offer."""
        is_met = self._answers.get(requirement)
        if is_met is None:
            value = self.value(requirement.key)
            is_met = self._answers[requirement] = requirement.has(value) if value else requirement.may_be_absent
        return is_met


class _Scale:
    """The amounts of one resource for all types, as an index of which types have at least some amount."""

    __slots__ = ("amounts", "sets")

    def __init__(self, amounts: Sequence[int]) -> None:
        by_amount: dict[int, int] = {}
        for number, amount in enumerate(amounts):
            by_amount[amount] = by_amount.get(amount, 0) | 1 << number
        self.amounts = sorted(by_amount)
        self.sets = [0] * (len(self.amounts) + 1)
        for position in range(len(self.amounts) - 1, -1, -1):
            self.sets[position] = self.sets[position + 1] | by_amount[self.amounts[position]]

    def at_least(self, amount: int) -> int:
        return self.sets[bisect_left(self.amounts, amount)]

    def largest(self, types: int, least: int = 1) -> int:
        """The largest amount that at least ``least`` of the types have; 0 if there are fewer types."""
        if not types:
            return 0
        after = bisect_right(self.sets, -1, key=lambda type_set: 0 if (type_set & types).bit_count() < least else -1)
        return self.amounts[after - 1] if after else 0


def members(types: int) -> Iterator[int]:
    """The positions of the types in a set, in ascending order."""
    while types:
        lowest = types & -types
        yield lowest.bit_length() - 1
        types ^= lowest
