"""Narrows claims that are planned already: to a capacity type, a zone, or some of the types that they list.

Each type that a claim lists holds its pods, wherever and as whatever it is bought. So every pod keeps its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tenon.apis import labels
from tenon.kube.offerings import OfferingKey
from tenon.kube.requirements import IN, Requirement
from tenon.scheduling.model import OFFERING_KEYS, InstanceType, Offering, PlannedClaim, Pool
from tenon.scheduling.offerings.commitments import covered_price
from tenon.scheduling.offerings.hourly_cost import cost_as

GENERATION = f"{labels.AWS_GROUP}/instance-generation"


@dataclass(frozen=True, slots=True)
class Sale:
    """The cheapest way to buy a type, within what a choice leaves."""

    price: float
    kind: InstanceType
    offering: Offering

    @property
    def generation(self) -> int:
        """The generation of the type; 0 if it states none."""
        values = self.kind.requirements.get(GENERATION).members if GENERATION in self.kind.requirements else ()
        return max((int(value) for value in values if value.isdecimal()), default=0)


@dataclass(slots=True)
class Market:
    """What claims may be bought as that list the same types and have the same requirements on offerings."""

    sales: Sequence[Sale]
    """Each type with each of its offerings."""
    narrowed: dict[tuple[str, tuple[str, ...]], list[Sale]] = field(default_factory=dict)
    _dearest: int | None = None

    def of(self, capacity_type: str = "", zones: tuple[str, ...] = ()) -> list[Sale]:
        """Return the best sale of each type, cheapest first. No capacity type and no zones stand for all."""
        key = capacity_type, zones
        if key not in self.narrowed:
            best: dict[str, Sale] = {}
            for sale in self.sales:
                offering = sale.offering
                if capacity_type in ("", offering.capacity_type) and (not zones or offering.zone in zones):
                    present = best.get(sale.kind.name)
                    if present is None or (sale.price, offering.zone) < (present.price, present.offering.zone):
                        best[sale.kind.name] = sale
            self.narrowed[key] = sorted(best.values(), key=lambda sale: (sale.price, sale.kind.name))
        return self.narrowed[key]

    def dearest(self) -> int:
        """Return the most that EC2 may charge, in micro-dollars an hour, for types `with_costs`."""
        if self._dearest is None:
            kinds = ((sale.kind, sale.offering.capacity_type) for sale in self.sales)
            self._dearest = max(kind.capacity.get(cost_as(capacity_type), 0) for kind, capacity_type in kinds)
        return self._dearest

    def zones(self) -> list[str]:
        """Return the zones in which anything is sold."""
        return sorted({sale.offering.zone for sale in self.sales})


class Markets:
    """What the claims of a NodePool may be bought as. Claims that are alike share it."""

    def __init__(self, pool: Pool) -> None:
        self.kinds = {kind.name: kind for kind in pool.instance_types}
        self._markets: dict[tuple[object, ...], Market] = {}

    def of(self, claim: PlannedClaim) -> Market:
        """Return what a claim may be bought as."""
        key = (claim.instance_types, *(claim.requirements.get(label) for label in OFFERING_KEYS))
        if key not in self._markets:
            kinds = (self.kinds[name] for name in claim.instance_types)
            self._markets[key] = Market(
                [
                    Sale(offering.price, kind, offering)
                    for kind in kinds
                    for offering in kind.offerings
                    if offering.launchable and offering.meets(claim.requirements)
                ]
            )
        return self._markets[key]


def narrowed(
    claim: PlannedClaim, sales: Sequence[Sale], capacity_type: str = "", zones: tuple[str, ...] = ()
) -> PlannedClaim:
    """Return the claim with these types only, which are sorted by price, in the capacity type and zones if given."""
    only = {labels.CAPACITY_TYPE: (capacity_type,) if capacity_type else (), labels.ZONE: zones}
    requirements = claim.requirements
    for key, values in only.items():
        if values:
            requirements = requirements.with_(Requirement.new(key, IN, values))
    offering = sales[0].offering
    return replace(
        claim,
        instance_types=tuple(sale.kind.name for sale in sales),
        requirements=requirements,
        price=covered_price(sales[0].price) if claim.commitment else sales[0].price,
        offering=OfferingKey(offering.capacity_type, sales[0].kind.name, offering.zone),
    )
