"""Which instance types the replacements of a consolidation may launch as, so that the move saves money in any case.

EC2 chooses among the types that a NodeClaim lists. So a type stays in the list only if its worst price keeps the whole
move cheaper than the nodes that it removes (DIS-34). Each of several new nodes gets a share of that sum in proportion
to its price.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from tenon.apis import labels
from tenon.disruption.nodes import NodeDetail
from tenon.ec2.launch.filters import PREFERRED_CAPACITY_TYPES
from tenon.kube.offerings import OfferingKey
from tenon.kube.requirements import IN, Requirement, Requirements
from tenon.scheduling.model import OFFERING_KEYS, InstanceType, Offering, PlannedClaim, Pool, Problem
from tenon.scheduling.offerings.commitments import covered_price
from tenon.scheduling.offerings.hourly_cost import COSTS, micro_dollars

SPOT_FLEXIBILITY = 15
"""How many cheaper types a spot node needs before another spot node replaces it, and how many are sent (DIS-36). With
fewer, replacing spot nodes again and again would end at the cheapest type, which is interrupted most. A set of spot
nodes needs them too, unless fewer nodes replace it: Karpenter replaces a set by one node at most."""
LEAST_SAVING = 1e-6
"""Dollars an hour below which a move is not a saving but a rounding error."""
_STRICTLY = 1 - 1e-9


@dataclass(frozen=True, slots=True)
class TypePrice:
    """What a type costs within a claim's requirements: its cheapest offering, and its dearest one."""

    type: InstanceType
    cheapest: Offering
    worst: float
    counted: float
    """The price of the dearest one that limits on costs count, also while a commitment covers the node."""


@dataclass(frozen=True, slots=True)
class MoveBill:
    """The replacements of a move with the types that they may launch as, and what the move saves an hour."""

    replacements: tuple[PlannedClaim, ...]
    guaranteed_saving: float
    """If every replacement is launched as its dearest listed type."""
    expected: float
    """If every replacement is launched as its cheapest type."""


class PriceRule:
    """The price rules of DIS-34 to DIS-37 on one catalogue."""

    def __init__(
        self,
        problem: Problem,
        *,
        spot_to_spot: bool = False,
        least_saving: float = LEAST_SAVING,
        asked_saving: Callable[[Sequence[NodeDetail]], float] = lambda _: 0.0,
    ) -> None:
        """Take the pools and their types.

        Args:
            problem: the cluster.
            spot_to_spot: allow spot nodes to be replaced by nodes that may be spot (SpotToSpotConsolidation).
            least_saving: dollars an hour that a move must save, unless it only frees places in reservations.
            asked_saving: returns what the NodePools of the nodes that leave ask for in addition.
        """
        self._pools = {pool.name: pool for pool in problem.pools}
        self._types = {pool.name: {kind.name: kind for kind in pool.instance_types} for pool in problem.pools}
        self._best_effort = problem.min_values_best_effort
        self._spot_to_spot = spot_to_spot
        self._sells_without_spot = any(pool.instance_types and not may_be_spot(pool) for pool in problem.pools)
        self._least_saving = least_saving
        self._asked_saving = asked_saving
        self._sales: dict[tuple[str, tuple[Requirement, ...]], dict[str, TypePrice]] = {}

    def is_free(self, detail: NodeDetail) -> bool:
        """Whether a node may be part of a move that launches nodes of any capacity type (DIS-36)."""
        return self._spot_to_spot or detail.capacity_type != labels.SPOT

    def may_replace(self, detail: NodeDetail) -> bool:
        """Whether a node may be part of a move that launches nodes: without the gate, spot by on-demand only."""
        return self.is_free(detail) or self._sells_without_spot

    def bill(self, leaving: Sequence[NodeDetail], claims: Iterable[PlannedClaim]) -> MoveBill | None:
        """Return what a move costs; None if it does not save enough, or one of its new nodes breaks a rule."""
        before = sum(detail.price for detail in leaving)
        bill_claims = list(claims)
        if not all(map(self.is_free, leaving)) and any(map(may_be_spot, bill_claims)):
            return None
        settled = [self._settled(claim) for claim in bill_claims]
        price = sum(claim.price for claim, _ in settled)
        frees_reservations = not bill_claims and is_reserved(leaving)
        least = max(0.0 if frees_reservations else self._least_saving, self._asked_saving(leaving))
        if before - price <= least:
            return None
        spot = all(detail.capacity_type == labels.SPOT for detail in leaving)
        must_be_flexible = spot and len(bill_claims) >= len(leaving)
        spendable = before - least
        cheaper_claims: list[PlannedClaim] = []
        worst = 0.0
        for claim, sales in settled:
            share = spendable * (claim.price / price if price > 0 else 1 / len(settled))
            kept_sales = self._kept(leaving, claim, sales, share)
            if must_be_flexible and claim.offering.capacity_type == labels.SPOT:
                kept_sales = self._flexible(claim, kept_sales)
            if not kept_sales or not self._is_diverse(claim, kept_sales):
                return None
            cheaper_claims.append(_listing(claim, kept_sales))
            worst += max(sale.worst for sale in kept_sales)
        return MoveBill(tuple(cheaper_claims), before - worst, before - sum(claim.price for claim in cheaper_claims))

    def _settled(self, claim: PlannedClaim) -> tuple[PlannedClaim, list[TypePrice]]:
        """Return the claim with one capacity type if it allows several, and its sales (DIS-35).

        Otherwise an on-demand node could be launched at a price that was compared as spot.
        """
        for capacity_type in PREFERRED_CAPACITY_TYPES:
            if not claim.requirements.get(labels.CAPACITY_TYPE).has(capacity_type):
                continue
            only = Requirement.new(labels.CAPACITY_TYPE, IN, (capacity_type,))
            requirements = claim.requirements.with_(only)
            listed = frozenset(claim.instance_types)
            sales = [sale for name, sale in self._sales_of(claim.pool, requirements).items() if name in listed]
            if claim.commitment:
                sales = [_covered(sale) for sale in sales]
            if sales:
                return _listing(replace(claim, requirements=requirements), sales), sales
        return claim, []

    def _sales_of(self, pool: str, requirements: Requirements) -> dict[str, TypePrice]:
        """Return what each type of the pool costs within the requirements, sorted by price."""
        key = (pool, tuple(requirements.get(label) for label in OFFERING_KEYS))
        if key not in self._sales:
            sales = []
            for kind in self._types[pool].values():
                offered = [offering for offering in kind.offerings if allows(requirements, offering)]
                if offered:
                    cheapest = min(offered, key=lambda offering: (offering.price, offering.zone))
                    worst = max(offering.price for offering in offered)
                    sales.append(TypePrice(kind, cheapest, worst, counted=worst))
            sales.sort(key=lambda sale: (sale.cheapest.price, sale.type.name))
            self._sales[key] = {sale.type.name: sale for sale in sales}
        return self._sales[key]

    def _kept(
        self, leaving: Sequence[NodeDetail], claim: PlannedClaim, sales: Sequence[TypePrice], share: float
    ) -> list[TypePrice]:
        """Return the sales below the claim's share that swap no type for itself (DIS-34, DIS-37).

        If several nodes leave and one of them has a type that the claim lists, then that node could stay instead. So
        only types that are cheaper than it are left.
        """
        below = share * _STRICTLY
        if len(leaving) > 1:
            listed = {sale.type.name for sale in sales}
            below = min([below, *(detail.price * _STRICTLY for detail in leaving if detail.instance_type in listed)])
        own = {(detail.instance_type, detail.capacity_type) for detail in leaving}
        return [
            sale for sale in sales if sale.worst < below and (sale.type.name, claim.offering.capacity_type) not in own
        ]

    def _flexible(self, claim: PlannedClaim, sales: list[TypePrice]) -> list[TypePrice]:
        """Return the cheapest types, as many as a spot node needs; none if there are too few (DIS-36)."""
        if len(sales) < SPOT_FLEXIBILITY:
            return []
        for count in range(SPOT_FLEXIBILITY, len(sales) + 1):
            if self._is_diverse(claim, sales[:count]):
                return sales[:count]
        return []

    def _is_diverse(self, claim: PlannedClaim, sales: Sequence[TypePrice]) -> bool:
        """Whether the types keep as many distinct values as the pool's ``minValues`` require."""
        if self._best_effort:
            return True
        pool = self._pools[claim.pool]
        return all(
            len(_values(claim.requirements, key, sales)) >= requirement.min_values
            for key, requirement in pool.requirements.items()
            if requirement.min_values
        )


def is_reserved(leaving: Iterable[NodeDetail]) -> bool:
    """Whether all nodes are in capacity reservations. They cost next to nothing, because their places stay paid for.

    Their removal still frees the places for other nodes. If it launches nothing, it need not save money (DIS-05).
    """
    return all(detail.capacity_type == labels.RESERVED for detail in leaving)


def may_be_spot(planned: PlannedClaim | Pool) -> bool:
    """Whether a new node of the claim or pool may be a spot node."""
    return planned.requirements.get(labels.CAPACITY_TYPE).has(labels.SPOT)


def _values(requirements: Requirements, key: str, sales: Iterable[TypePrice]) -> set[str]:
    allowed = requirements.get(key)
    if key == labels.INSTANCE_TYPE:
        return {sale.type.name for sale in sales}
    if key in OFFERING_KEYS:
        offered = (o for sale in sales for o in sale.type.offerings if allows(requirements, o))
        return {_label(offering, key) for offering in offered} - {""}
    return {
        value
        for sale in sales
        if key in sale.type.requirements
        for value in sale.type.requirements[key].members
        if allowed.has(value)
    }


def _listing(claim: PlannedClaim, sales: Sequence[TypePrice]) -> PlannedClaim:
    """Return the claim with these types only, which are sorted by price."""
    first = sales[0]
    return replace(
        claim,
        instance_types=tuple(sale.type.name for sale in sales),
        price=first.cheapest.price,
        offering=OfferingKey(first.cheapest.capacity_type, first.type.name, first.cheapest.zone),
        largest={name: max(_counted(name, sale) for sale in sales) for name in claim.largest},
    )


def _covered(sale: TypePrice) -> TypePrice:
    """Return what the type costs while a commitment covers it."""
    cheapest = replace(sale.cheapest, price=covered_price(sale.cheapest.price))
    return replace(sale, cheapest=cheapest, worst=covered_price(sale.worst))


def _counted(name: str, sale: TypePrice) -> int:
    """What a node counts against a limit of its NodePool."""
    return micro_dollars(sale.counted) if name in COSTS else sale.type.capacity.get(name, 0)


def allows(requirements: Requirements, offering: Offering) -> bool:
    """Whether a claim with these requirements may launch with the offering."""
    return offering.launchable and is_compatible(requirements, offering)


def is_compatible(requirements: Requirements, offering: Offering) -> bool:
    """Whether the requirements allow the labels of the offering, whether or not a node can be launched with it."""
    for key in OFFERING_KEYS:
        if key in requirements:
            value = _label(offering, key)
            if not (requirements[key].has(value) if value else requirements[key].may_be_absent):
                return False
    return True


def _label(offering: Offering, key: str) -> str:
    return offering.values[OFFERING_KEYS.index(key)]
