"""The filters between a NodeClaim and its fleet request: which instance types and offerings a launch may use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tenon.apis import labels
from tenon.errors import TenonError
from tenon.kube.requirements import Requirement, Requirements
from tenon.resources import Resources, fits
from tenon.scheduling.model import OFFERING_KEYS, InstanceType, Offering

MAX_TYPES = 60
"""The most types in one fleet request. More would slow EC2 down without changing the result."""

FLEXIBLE_TYPES = 5
"""With fewer types to choose from, spot capacity is often missing."""

_EXOTIC_COUNTS = tuple(f"{labels.AWS_GROUP}/instance-{name}-count" for name in ("gpu", "accelerator"))
_SIZE = f"{labels.AWS_GROUP}/instance-size"
PREFERRED_CAPACITY_TYPES = (labels.RESERVED, labels.SPOT, labels.ON_DEMAND)
"""The order in which a launch chooses its capacity type (SCH-103)."""


class NoOfferingError(TenonError):
    """No instance type that the claim allows can be bought now."""


class NoImageError(TenonError):
    """No image of the EC2NodeClass boots an instance type that the claim allows."""


@dataclass(frozen=True, slots=True)
class TypeOfferings:
    """An instance type and its remaining offerings."""

    type: InstanceType
    offerings: tuple[Offering, ...]

    @property
    def price(self) -> float:
        """The price of the cheapest remaining offering."""
        return min(offering.price for offering in self.offerings)


def few_types(requirements: Requirements, capacity_type: str, instance_types: Collection[str]) -> str:
    """Return a warning if a claim that prefers spot is bought on demand from few types; otherwise nothing (AWS-012).

    With more types, spot capacity would probably have been found.
    """
    prefers_spot = requirements.get(labels.CAPACITY_TYPE).has(labels.SPOT)
    if not prefers_spot or capacity_type != labels.ON_DEMAND or len(instance_types) >= FLEXIBLE_TYPES:
        return ""
    return (
        "A NodeClaim that may be spot is launched on demand, and it allows few instance types: "
        f"let its NodePool and its pods allow at least {FLEXIBLE_TYPES}"
    )


def named_types(requirements: Requirements, instance_types: Iterable[InstanceType]) -> list[InstanceType]:
    """Return the types that the requirement of the label `node.kubernetes.io/instance-type` allows.

    A planned claim names at most `MAX_TYPES` of about 900 types, and each other filter costs more than this one.
    """
    requirement = requirements.get(labels.INSTANCE_TYPE)
    return [instance_type for instance_type in instance_types if requirement.has(instance_type.name)]


def choose(
    requirements: Requirements,
    requests: Resources,
    instance_types: Iterable[InstanceType],
    zones: Iterable[str],
    *,
    min_values_relaxed: bool = False,
) -> tuple[str, list[TypeOfferings]]:
    """Return the capacity type to buy and at most `MAX_TYPES` types to offer EC2, cheapest first.

    ``zones`` are the zones with a subnet that has free addresses. As in a plan, the types of all capacity types count
    toward the claim's minValues, also if few of them can be bought as the one that is chosen.

    Raises:
        NoOfferingError: no type is left, or too few types for the claim's minValues if these are not relaxed.
    """
    choices = compatible(requirements, requests, instance_types, frozenset(zones))
    # If nothing but full reservations is left, EC2 decides: its answer is newer than the count of their places.
    choices = _filter_offerings(choices, lambda offering: offering.launchable) or choices
    flexible = not _min_values(requirements)
    if flexible:
        choices = _drop_expensive_spot(_plain_first(choices))
    capacity_types = {offering.capacity_type for choice in choices for offering in choice.offerings}
    capacity_type = next((preferred for preferred in PREFERRED_CAPACITY_TYPES if preferred in capacity_types), None)
    if capacity_type is None:
        raise NoOfferingError(
            "no instance type that the claim allows fits its pods and can be bought in the class's zones"
        )
    if not (flexible or min_values_relaxed):
        candidates = [choice.type for choice in cheapest(requirements, choices)]
        if missing := missing_values(requirements, candidates):
            raise NoOfferingError(missing)
    choices = _filter_offerings(choices, lambda offering: offering.capacity_type == capacity_type)
    if capacity_type == labels.RESERVED:
        choices = _of_one_kind(choices)
    return capacity_type, cheapest(requirements, choices)


def cheapest(
    requirements: Requirements, choices: Iterable[TypeOfferings], most: int = MAX_TYPES
) -> list[TypeOfferings]:
    """Return at most ``most`` of the types, cheapest first.

    The dearest are left out, but not those with values that the others lack for minValues.
    """
    by_price = sorted(choices, key=lambda choice: (choice.price, choice.type.name))
    minimums = _min_values(requirements)
    types_with = Counter(pair for choice in by_price for pair in _pairs(requirements, minimums, choice.type))
    values_of = Counter(key for key, _ in types_with)
    left_out: set[str] = set()
    for choice in reversed(by_price):
        if len(by_price) - len(left_out) <= most:
            break
        pairs = _pairs(requirements, minimums, choice.type)
        lost = Counter(key for key, value in pairs if types_with[key, value] == 1)
        if all(values_of[key] - number >= minimums[key] for key, number in lost.items()):
            left_out.add(choice.type.name)
            types_with.subtract(pairs)
            values_of.subtract(lost)
    return [choice for choice in by_price if choice.type.name not in left_out][:most]


def compatible(
    requirements: Requirements,
    requests: Resources,
    instance_types: Iterable[InstanceType],
    zones: frozenset[str],
    *,
    also_unavailable: bool = False,
) -> list[TypeOfferings]:
    """Return types that meet the requirements and fit the requests, each with the offerings that can be bought.

    ``also_unavailable``: as if all offerings could be bought.
    """
    offering_requirements = [
        (position, requirements[key]) for position, key in enumerate(OFFERING_KEYS) if key in requirements
    ]
    choices = []
    for instance_type in instance_types:
        offerings = tuple(
            offering
            for offering in instance_type.offerings
            if (offering.available or also_unavailable)
            and offering.zone in zones
            and _meets(offering, offering_requirements)
        )
        if (
            offerings
            and fits(requests, instance_type.allocatable)
            and instance_type.requirements.intersects(requirements)
        ):
            choices.append(TypeOfferings(instance_type, offerings))
    return choices


def _meets(offering: Offering, offering_requirements: Iterable[tuple[int, Requirement]]) -> bool:
    """Whether the offering has these values, given by their place in `OFFERING_KEYS`. An unknown zone ID fits."""
    values = offering.values
    for position, requirement in offering_requirements:
        value = values[position]
        if value:
            if not requirement.has(value):
                return False
        elif OFFERING_KEYS[position] != labels.ZONE_ID and not requirement.may_be_absent:
            return False
    return True


def _of_one_kind(choices: Iterable[TypeOfferings]) -> list[TypeOfferings]:
    """Keep the cheapest kind of reservation, because one request is for one kind (AWS-021..023).

    In each zone, a type keeps the reservation with the most places. Of capacity blocks only one is left.
    """
    best = min((offering for choice in choices for offering in choice.offerings), key=_kind)
    same_kind = _filter_offerings(choices, lambda offering: _kind(offering)[1:] == _kind(best)[1:])
    if best.reservation_type == labels.CAPACITY_BLOCK:
        same_kind = sorted(same_kind, key=lambda choice: (choice.price, choice.type.name))[:1]
        only = min(same_kind[0].offerings, key=lambda offering: (offering.price, -offering.reservation_capacity))
        return [TypeOfferings(same_kind[0].type, (only,))]
    return [TypeOfferings(choice.type, _roomiest(choice.offerings)) for choice in same_kind]


def _kind(offering: Offering) -> tuple[float, bool, bool]:
    """Sorts by price, and then on-demand reservations first, blocks next, and those that may be taken back last."""
    interruptible = offering.reservation_interruptible == "true"
    return offering.price, interruptible, offering.reservation_type == labels.CAPACITY_BLOCK


def _roomiest(offerings: Iterable[Offering]) -> tuple[Offering, ...]:
    by_zone: dict[str, Offering] = {}
    for offering in sorted(
        offerings, key=lambda candidate: (-candidate.reservation_capacity, candidate.reservation_id)
    ):
        by_zone.setdefault(offering.zone, offering)
    return tuple(by_zone[zone] for zone in sorted(by_zone))


def _plain_first(choices: list[TypeOfferings]) -> list[TypeOfferings]:
    """Keep bare metal and accelerated types only if no other is left: they are expensive, slow to boot, or scarce."""
    return [choice for choice in choices if not _exotic(choice.type)] or choices


def _exotic(instance_type: InstanceType) -> bool:
    if any("metal" in size for size in instance_type.requirements.get(_SIZE).values):
        return True
    return any(
        not instance_type.requirements.get(key).complement and instance_type.requirements.get(key).values
        for key in _EXOTIC_COUNTS
    )


def _drop_expensive_spot(choices: list[TypeOfferings]) -> list[TypeOfferings]:
    """If on-demand is also allowed, drops spot offerings that cost more than the cheapest on-demand offering."""
    on_demand = [o.price for choice in choices for o in choice.offerings if o.capacity_type == labels.ON_DEMAND]
    if not on_demand:
        return choices
    limit = min(on_demand)
    return _filter_offerings(choices, lambda offering: offering.capacity_type != labels.SPOT or offering.price <= limit)


def _filter_offerings(choices: Iterable[TypeOfferings], keep: Callable[[Offering], bool]) -> list[TypeOfferings]:
    filtered = (TypeOfferings(choice.type, tuple(filter(keep, choice.offerings))) for choice in choices)
    return [choice for choice in filtered if choice.offerings]


def _min_values(requirements: Requirements) -> Mapping[str, int]:
    return {key: requirement.min_values for key, requirement in requirements.items() if requirement.min_values}


def _pairs(requirements: Requirements, keys: Iterable[str], instance_type: InstanceType) -> list[tuple[str, str]]:
    """The labels among ``keys`` that the type has, each with its values that the requirements allow."""
    return [
        (key, value)
        for key in keys
        for value in instance_type.requirements.get(key).values
        if requirements.get(key).has(value)
    ]


def missing_values(requirements: Requirements, instance_types: Sequence[InstanceType]) -> str:
    """Return which label has fewer values than its minValues; empty if there are enough for all labels."""
    for key, minimum in sorted(_min_values(requirements).items()):
        values = {pair for instance_type in instance_types for pair in _pairs(requirements, (key,), instance_type)}
        if len(values) < minimum:
            return f"minValues of {key} asks for {minimum} values, but the types that can be bought have {len(values)}"
    return ""
