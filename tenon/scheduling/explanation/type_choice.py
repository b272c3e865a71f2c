"""Says why a planned node has its type: what it must hold, which type comes next, and why no cheaper type was chosen.

It explains only the choice of the type, for the pods that the node was given.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from tenon.apis import labels
from tenon.kube.offerings import OfferingKey
from tenon.kube.requirements import Requirement, Requirements
from tenon.money import per_hour
from tenon.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources, binary_unit
from tenon.scheduling.explanation.equal_nodes import Division
from tenon.scheduling.model import OFFERING_KEYS, InstanceType, Offering, PlannedClaim, Problem
from tenon.sentences import counted

_ALIKE = 0.005
"""Prices whose relative difference is below this are reported as the same."""


class _Sale(NamedTuple):
    """A way to buy a type. A catalogue has ten thousand, which are made for one sentence."""

    price: float
    name: str
    kind: InstanceType
    offering: Offering
    room: Resources
    """The type's allocatable resources."""


@dataclass(frozen=True, slots=True)
class _Market:
    """The sales of a pool that satisfy some requirements, cheapest first."""

    best: Sequence[_Sale]
    """The best sale of each type that may be bought."""
    prices: Mapping[str, float]
    """Price by type."""
    unavailable: Sequence[_Sale]
    """Sales that satisfy the requirements, but are not available. None of them is of a reservation."""
    others: Sequence[tuple[_Sale, str]]
    """Sales that the pool allows but a node with these requirements cannot use, with the reason."""


@dataclass(frozen=True, slots=True)
class _PoolTypes:
    """The types of a pool, with the facts that all its claims share."""

    kinds: Sequence[InstanceType]
    """The pool's types, and those of which everything that the pool allows is unavailable."""
    own: Requirements
    """The pool's requirements on labels that types or their offerings determine."""
    known_labels: frozenset[str]
    """Labels that types or their offerings determine."""
    sales: Sequence[_Sale]
    """Every offering of the pool, including those unavailable, cheapest first."""
    offers: Mapping[tuple[str, ...], Offering]
    """An offering for each combination of what offerings determine, which decides whether requirements refuse it."""
    markets: dict[Requirements, _Market] = field(default_factory=dict)


AttemptedAt = Callable[[OfferingKey], datetime | None]
"""Returns when Tenon asks EC2 again for an offering that it refused; None if EC2 did not refuse it."""


def nothing_refused(_: OfferingKey) -> datetime | None:
    """An `AttemptedAt` for a market in which EC2 refuses nothing."""
    return None


@dataclass(frozen=True, slots=True)
class _UnavailableTypes:
    """The cheaper types that hold what a claim must hold, and that EC2 refused."""

    count: int
    first: str
    """The cheapest type."""
    price: float
    """Its price in dollars an hour."""


@dataclass(frozen=True, slots=True)
class UsualNodes:
    """The cheapest nodes of one type that EC2 refused and that would hold a claim's pods, of its capacity type."""

    instance_type: str
    count: int
    price: float
    """What they cost together, in dollars an hour."""
    next_attempt: datetime
    """When Tenon asks EC2 for the type again."""


class TypeChoiceExplainer:
    """Explains the claims of a plan for one problem. Caches what claims share."""

    def __init__(
        self,
        problem: Problem,
        types_without_refusals: Mapping[str, Sequence[InstanceType]] | None = None,
        attempted_at: AttemptedAt = nothing_refused,
    ) -> None:
        """Take the problem that was solved.

        Args:
            problem: the problem.
            types_without_refusals: for each pool all instance types, because the problem lacks types of
                which nothing is available.
            attempted_at: which offerings EC2 refused.
        """
        self._types_without_refusals = types_without_refusals or {}
        self._attempted_at = attempted_at
        self._pools = {pool.name: pool for pool in problem.pools}
        self._shelves: dict[str, _PoolTypes] = {}
        self._explanations: dict[tuple[object, ...], str] = {}

    def why(self, claim: PlannedClaim) -> str:
        """Explain the cheapest type of a claim in one sentence; empty if the problem lacks the claim's pool."""
        if claim.pool not in self._pools:
            return ""
        shelf = self._pool_types(claim.pool)
        requirements = _asked(claim, shelf)
        amounts = tuple(sorted(claim.requests.items()))
        cache_key = (claim.pool, requirements, amounts, claim.instance_types, claim.goals, claim.commitment)
        if cache_key not in self._explanations:
            self._explanations[cache_key] = self._explain(claim, shelf, requirements)
        return self._explanations[cache_key]

    def usual(self, claim: PlannedClaim) -> UsualNodes | None:
        """Return what would be bought if EC2 had not refused it; None if EC2 refused nothing cheaper.

        Where EC2 refuses spot capacity, on-demand capacity is what the pool falls back to, at its usual price.
        """
        if claim.pool not in self._pools:
            return None
        cheapest: UsualNodes | None = None
        tried_sales: set[tuple[str, float]] = set()
        division: Division | None = None
        for sale, next_attempt in self._refused_sales(claim, self._market_of(claim)):
            if cheapest is not None and sale.price >= cheapest.price:
                break
            if sale.offering.capacity_type != claim.offering.capacity_type or (sale.name, sale.price) in tried_sales:
                continue
            tried_sales.add((sale.name, sale.price))
            count: int | None = 1
            if _missing(claim.requests, sale.room):
                division = division or Division(claim)
                affordable = (cheapest.price if cheapest is not None else claim.price) / sale.price if sale.price else 0
                count = division.nodes(sale.room, int(affordable))
            if count and (cheapest is None or count * sale.price < cheapest.price):
                cheapest = UsualNodes(sale.name, count, count * sale.price, next_attempt)
        return cheapest

    def usual_price(self, claim: PlannedClaim) -> float | None:
        """Return the price of `usual`; None if EC2 refused nothing cheaper."""
        usual_nodes = self.usual(claim)
        return None if usual_nodes is None else usual_nodes.price

    def types_up_to(self, claim: PlannedClaim, price: float) -> tuple[str, ...]:
        """Return the claim's types that cost at most so much an hour, cheapest first."""
        if claim.pool not in self._pools:
            return claim.instance_types
        prices = self._market_of(claim).prices
        return tuple(name for name in claim.instance_types if prices.get(name, 0.0) <= price)

    def _market_of(self, claim: PlannedClaim) -> _Market:
        shelf = self._pool_types(claim.pool)
        return _market(shelf, _asked(claim, shelf))

    def _refused_sales(self, claim: PlannedClaim, market: _Market) -> Iterator[tuple[_Sale, datetime]]:
        """Cheaper sales that EC2 refused, cheapest first. They may be too small for all of the claim's pods."""
        for sale in market.unavailable:
            if sale.price >= claim.price * (1 - _ALIKE):
                break
            key = OfferingKey(sale.offering.capacity_type, sale.name, sale.offering.zone)
            if next_attempt := self._attempted_at(key):
                yield sale, next_attempt

    def _refused(self, claim: PlannedClaim, market: _Market) -> _UnavailableTypes | None:
        cheaper: dict[str, _Sale] = {}
        for sale, _ in self._refused_sales(claim, market):
            if not _missing(claim.requests, sale.room):
                cheaper.setdefault(sale.name, sale)
        if not cheaper:
            return None
        first = next(iter(cheaper.values()))
        return _UnavailableTypes(len(cheaper), first.name, first.price)

    def _explain(self, claim: PlannedClaim, shelf: _PoolTypes, requirements: Requirements) -> str:
        capacity_type, name, zone = claim.offering[:3]
        market = _market(shelf, requirements)
        count, refusal_text = len(claim.instance_types), self._refused(claim, market)
        place = f"{f'the cheapest of {count} types' if count > 1 else 'the only type'} that {_condition(claim, count)}"
        if refusal_text is not None:
            place += " and that EC2 did not refuse"
        if capacity_type == labels.RESERVED:
            place = f"{_reservation(claim)} is paid for already; {place}"
        if claim.commitment:
            place = f"{claim.commitment} covers it, and is paid for until it is used up; {place}"
        clauses = [f"{name} in {zone} ({capacity_type}): {place}"]
        if refusal_text is not None:
            first = (
                f"{refusal_text.first} at {per_hour(refusal_text.price)}{' first' if refusal_text.count > 1 else ''}"
            )
            types = counted(refusal_text.count, "cheaper type")
            clauses.append(f"EC2 refused {types}, {first}")
        if count > 1 and not claim.commitment:
            after = claim.instance_types[1]
            clauses.append(f"next is {after}, {_price_difference(market.prices.get(after, claim.price), claim.price)}")
        clauses += claim.goals
        if refusal_text is None and not claim.goals:  # these compare with what goals have left out
            clauses += [clause for clause in (_too_small(claim, market), _ruled_out(claim, market)) if clause]
        return "; ".join(clauses)

    def _pool_types(self, name: str) -> _PoolTypes:
        if name not in self._shelves:
            pool = self._pools[name]
            pool_type_names = {kind.name for kind in pool.instance_types}
            unavailable_types = (
                kind
                for kind in self._types_without_refusals.get(name, ())
                if kind.has_image and kind.name not in pool_type_names and _has_unavailable(kind)
            )
            kinds = [*pool.instance_types, *unavailable_types]
            rooms = ((kind, kind.allocatable) for kind in kinds)
            sales = [_Sale(o.price, kind.name, kind, o, room) for kind, room in rooms for o in kind.offerings]
            known_keys = {key for kind in kinds for key in kind.requirements}
            ordered = sorted(sales, key=lambda s: (s.price, s.name, s.offering.zone, s.offering.capacity_type))
            known_keys |= {labels.INSTANCE_TYPE, *OFFERING_KEYS}
            own = Requirements(
                {key: requirement for key, requirement in pool.requirements.items() if key in known_keys}
            )
            offers = {offering.values: offering for kind in kinds for offering in kind.offerings}
            self._shelves[name] = _PoolTypes(kinds, own, frozenset(known_keys), ordered, offers)
        return self._shelves[name]


def _asked(claim: PlannedClaim, shelf: _PoolTypes) -> Requirements:
    """The claim's requirements on labels that types or their offerings determine."""
    return Requirements(
        {key: requirement for key, requirement in claim.requirements.items() if key in shelf.known_labels}
    )


def _has_unavailable(kind: InstanceType) -> bool:
    return not all(offering.launchable for offering in kind.offerings)


def _condition(claim: PlannedClaim, types: int) -> str:
    """What the claim's types have in common. A node of a static NodePool needs to hold no pods."""
    if not claim.requests and not claim.pods:
        return "its NodePool allows"
    *first_amounts, last = _amounts(claim.requests) or ["its pods"]
    amounts_text = f"{', '.join(first_amounts)} and {last}" if first_amounts else last
    return f"{'hold' if types > 1 else 'holds'} {amounts_text}"


def _reservation(claim: PlannedClaim) -> str:
    names = claim.requirements.get(labels.RESERVATION_ID).values
    return f"reservation {names[0]}" if names else "its reservation"


def _market(shelf: _PoolTypes, requirements: Requirements) -> _Market:
    if requirements in shelf.markets:
        return shelf.markets[requirements]
    type_requirements, own = _of_types(requirements), _of_types(shelf.own)
    forbidding = {kind.name: _forbidding(kind, type_requirements) for kind in shelf.kinds}
    closed = {kind.name for kind in shelf.kinds if _forbidding(kind, own)}
    refusing = {values: _refusing(offering, requirements) for values, offering in shelf.offers.items()}
    refused_by_pool = {values for values, offering in shelf.offers.items() if _refusing(offering, shelf.own)}
    best: dict[str, _Sale] = {}
    unavailable: list[_Sale] = []
    other_sales: list[tuple[_Sale, str]] = []
    for sale in shelf.sales:
        values = sale.offering.values
        forbidding_requirement = forbidding[sale.name] or refusing[values]
        if forbidding_requirement is None and sale.offering.launchable:
            best.setdefault(sale.name, sale)
        elif sale.name not in closed and values not in refused_by_pool:
            name = sale.offering.reservation_id
            if forbidding_requirement is None and not name:
                unavailable.append(sale)
            if name and not sale.offering.launchable:
                other_sales.append((sale, f"capacity reservation {name} takes no more nodes"))
            elif not name:  # how many places this plan leaves in a reservation is not known here
                other_sales.append(
                    (
                        sale,
                        f"its pods need {forbidding_requirement}"
                        if forbidding_requirement is not None
                        else "it is unavailable",
                    )
                )
    prices = {name: sale.price for name, sale in best.items()}
    market = shelf.markets[requirements] = _Market(list(best.values()), prices, unavailable, other_sales)
    return market


def _too_small(claim: PlannedClaim, market: _Market) -> str:
    """The most expensive of the cheaper types that lack room, and what it lacks.

    A type without any of the missing resource (such as a GPU) is not mentioned.
    """
    listed = set(claim.instance_types)
    cheaper = bisect_left(market.best, claim.price, key=lambda sale: sale.price)
    for sale in reversed(market.best[:cheaper]):
        missing_text = "" if sale.name in listed else _missing(claim.requests, sale.room)
        if missing_text and sale.room.get(missing_text):
            have, need = _distinct_amounts(missing_text, sale.room.get(missing_text, 0), claim.requests[missing_text])
            verb = "is" if need.is_one else "are"
            return f"{sale.name} is cheaper but has {have}, {need} {verb} needed"
    return ""


def _ruled_out(claim: PlannedClaim, market: _Market) -> str:
    """The cheapest offering that would cost less but is unavailable or does not match the requirements of the pods."""
    for sale, why in market.others:
        if sale.price >= claim.price * (1 - _ALIKE):
            break
        if not _missing(claim.requests, sale.room):
            where = f"{sale.name} in {sale.offering.zone} ({sale.offering.capacity_type})"
            return f"{where} would cost {_percent(1 - sale.price / claim.price)} less, but {why}"
    return ""


def _of_types(requirements: Requirements) -> list[tuple[str, Requirement]]:
    """The requirements on labels that a node gets from its type, in the order of their keys."""
    return [(key, requirements[key]) for key in sorted(requirements) if key not in OFFERING_KEYS]


def _forbidding(kind: InstanceType, requirements: Iterable[tuple[str, Requirement]]) -> Requirement | None:
    """A requirement that the type cannot meet; None if it meets all."""
    for key, requirement in requirements:
        if key == labels.INSTANCE_TYPE and key not in kind.requirements:
            met = requirement.has(kind.name)
        elif key in kind.requirements:
            met = kind.requirements[key].overlaps(requirement)
        else:
            met = requirement.may_be_absent
        if not met:
            return requirement
    return None


def _refusing(offering: Offering, requirements: Requirements) -> Requirement | None:
    """A requirement that the offering does not meet; None if it meets all."""
    for key, value in zip(OFFERING_KEYS, offering.values, strict=True):
        if key in requirements and not (requirements[key].has(value) if value else requirements[key].may_be_absent):
            return requirements[key]
    return None


def _missing(requests: Mapping[str, int], allocatable: Resources) -> str:
    """The first resource that falls short: CPU, memory, then the others by name; empty if none does."""
    short = [name for name, units in requests.items() if units > allocatable.get(name, 0)]
    return min(short, key=lambda name: (name != CPU, name != MEMORY, name), default="")


def _amounts(requests: Mapping[str, int]) -> list[str]:
    """Format requests for people, without the number of pods and ephemeral storage."""
    shown = [CPU, MEMORY, *sorted(set(requests) - {CPU, MEMORY, PODS, EPHEMERAL_STORAGE})]
    return [str(_amount(name, requests[name])) for name in shown if requests.get(name)]


class _Amount(NamedTuple):
    """An amount as people read it: '7.5 CPU', '12Gi', '2 nvidia.com/gpu' or '58 pods'."""

    figure: str
    unit: str
    """With the space before it, if there is one."""

    @property
    def is_one(self) -> bool:
        """Whether it is one piece of something."""
        return self.figure == "1" and self.unit.startswith(" ")

    def __str__(self) -> str:
        return f"{self.figure}{self.unit}"


def _distinct_amounts(name: str, have: int, need: int) -> tuple[_Amount, _Amount]:
    """Format two amounts with as many digits as needed to show that they differ."""
    for digits in range(1, 7):
        pair = _amount(name, have, digits), _amount(name, need, digits)
        if pair[0] != pair[1]:
            break
    return pair


def _amount(name: str, units: int, digits: int = 1) -> _Amount:
    if name == CPU:
        return _Amount(f"{round(units / 1000, max(digits, 2)):g}", " CPU")
    if name in (MEMORY, EPHEMERAL_STORAGE) or name.startswith("hugepages-"):
        plain = "" if name == MEMORY else f" {name}"
        size, suffix = binary_unit(units)
        if not suffix:
            return _Amount(f"{units}", f" {'byte' if units == 1 else 'bytes'} of {name}")
        return _Amount(f"{units / size:.{digits}f}".removesuffix(".0"), f"{suffix}{plain}")
    return _Amount(f"{units}", f" {name}")


def _price_difference(price: float, than: float) -> str:
    if not than and price:
        return f"at {per_hour(price)}"
    if price <= than * (1 + _ALIKE):
        return "at nearly the same price" if price > than else "at the same price"
    return f"{_percent(price / than - 1)} more expensive" if price < 2 * than else f"{price / than:.0f} times the price"


def _percent(share: float) -> str:
    return f"{round(100 * share)} %"
