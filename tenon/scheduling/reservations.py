"""Uses capacity reservations. Their places are already paid for, so they come before anything that is bought.

A reservation becomes a pool of its own, which comes before its NodePool. It has the same name and rules, launches into
the reservation only, and is limited to one node per place. Limits that pools share, and reservations that several pools
may use, are counted once. A reservation that is full becomes such a pool too, so that pods hear which one is full.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from tenon.apis import labels
from tenon.kube.pool_reasons import Obstacle, ObstacleKind
from tenon.kube.requirements import IN, NOT_IN, Requirement, Requirements
from tenon.resources import add, subtract
from tenon.scheduling.model import InstanceType, Node, Offering, PlannedClaim, Pool
from tenon.scheduling.offerings.hourly_cost import TOTAL_HOURLY_COST
from tenon.scheduling.offerings.limits import COMMITMENT, OF_THE_ACCOUNT, RESERVATION
from tenon.scheduling.offerings.template import Template
from tenon.scheduling.packing.fleet import Fleet
from tenon.scheduling.pods.pod_classes import PodClass

_NOT_RESERVED = Requirement.new(labels.CAPACITY_TYPE, NOT_IN, (labels.RESERVED,))


def in_order(pools: Iterable[Pool]) -> list[Pool]:
    """Return the pools in the order in which they are tried, each divided by the reservations that it may use."""
    ordered = sorted(pools, key=lambda pool: (-pool.weight, pool.name))
    return list(chain.from_iterable(map(split, ordered)))


def split(pool: Pool) -> list[Pool]:
    """Return one pool per reservation that the pool may use, cheapest first, and then the pool without reservations."""
    offered = {offering.capacity_type for instance_type in pool.instance_types for offering in instance_type.offerings}
    if labels.RESERVED not in offered:
        return [pool]
    types: dict[str, list[InstanceType]] = {}
    for instance_type in pool.instance_types:
        offerings = [offering for offering in instance_type.offerings if offering.capacity_type == labels.RESERVED]
        for name in dict.fromkeys(offering.reservation_id for offering in offerings if offering.available):
            reserved_offerings = tuple(offering for offering in offerings if offering.reservation_id == name)
            types.setdefault(name, []).append(replace(instance_type, offerings=reserved_offerings))
    if not types:
        return [pool]
    reserved = [
        _reserved(pool, name, types[name]) for name in sorted(types, key=lambda name: (_price(types[name]), name))
    ]
    unreserved = replace(pool, requirements=pool.requirements.with_(Requirements.of(_NOT_RESERVED)))
    pools = [
        split_pool
        for split_pool in (*reserved, unreserved)
        if not split_pool.requirements[labels.CAPACITY_TYPE].contradicts()
    ]
    return pools or [pool]


def _reserved(pool: Pool, name: str, types: Sequence[InstanceType]) -> Pool:
    own = Requirements.of(
        Requirement.new(labels.CAPACITY_TYPE, IN, (labels.RESERVED,)),
        Requirement.new(labels.RESERVATION_ID, IN, (name,)),
    )
    places = max(o.reservation_capacity for t in types for o in t.offerings)
    return replace(
        pool,
        requirements=pool.requirements.with_(own),
        instance_types=list(types),
        limits={**(pool.limits or {}), f"{RESERVATION}{name}": places},
    )


def reservation_of(claim: PlannedClaim) -> str:
    """Return the ID of the reservation that the claim launches into; empty if it is bought."""
    if not claim.requirements.get(labels.CAPACITY_TYPE).has(labels.RESERVED):
        return ""
    requirement = claim.requirements.get(labels.RESERVATION_ID)
    return requirement.values[0] if not requirement.complement and len(requirement.members) == 1 else ""


def with_places_taken(pools: Iterable[Pool], claims: Iterable[PlannedClaim]) -> list[Pool]:
    """Return the pools for a plan that follows the one with these claims, whose places it must not use as well.

    Nor must it use what they use up of commitments. Every pool counts both, because several may use them.
    """
    used_amounts: Counter[str] = Counter()
    for claim in claims:
        if name := reservation_of(claim):
            used_amounts[f"{RESERVATION}{name}"] += 1
        if claim.commitment:
            used_amounts[f"{COMMITMENT}{claim.commitment}"] += claim.committed
    return [replace(pool, usage=add(pool.usage, used_amounts)) for pool in pools] if used_amounts else list(pools)


def with_places_credited(pools: Iterable[Pool], places: Mapping[str, int]) -> list[Pool]:
    """Return the pools as if reservations had so many more places, by ID.

    A reservation that a pool may not use, or that is unavailable for another reason than being full, gets none.
    """
    credited = {f"{RESERVATION}{name}": count for name, count in places.items()}
    return [replace(pool, usage=subtract(pool.usage, credited)) for pool in pools] if credited else list(pools)


def reservation_of_node(node: Node) -> str:
    """Return the ID of the reservation in which the node has a place; empty if it is in none."""
    is_reserved_node = node.labels.get(labels.CAPACITY_TYPE) == labels.RESERVED
    return node.labels.get(labels.RESERVATION_ID, "") if is_reserved_node else ""


def places_left(pool: Pool, offering: Offering) -> int:
    """Return how many more nodes of the pool the offering's reservation takes, after plans that took places."""
    return offering.reservation_capacity - pool.usage.get(f"{RESERVATION}{offering.reservation_id}", 0)


def is_reserved(pool: Pool) -> bool:
    """Whether the pool stands for a reservation."""
    return any(name.startswith(RESERVATION) for name in pool.limits or {})


def is_paid_for(pool: Pool) -> bool:
    """Whether the pool stands for a reservation or for another commitment, which come before what is bought."""
    return any(name.startswith(OF_THE_ACCOUNT) for name in pool.limits or {})


def _price(types: Iterable[InstanceType]) -> float:
    return min(offering.price for instance_type in types for offering in instance_type.offerings)


def drop_far_limits(templates: Sequence[Template], nodes: int) -> None:
    """Drop limits that this many nodes cannot exceed, whichever of the pool's types they have."""
    near = {template.pool.name for template in templates if not template.limits.out_of_reach(nodes)}
    for template in templates:
        shares_cost = bool(near) and TOTAL_HOURLY_COST in template.limits.remaining
        if template.pool.name not in near and not shares_cost:
            template.limits.drop()


def share_limits(fleets: Sequence[Fleet]) -> None:
    """Connect fleets that count against the same limits, so that each counts the nodes of the others."""
    for fleet in fleets:
        fleet.sharing = [
            (other, name)
            for other in fleets
            for name in fleet.limits.remaining
            if other is not fleet
            and name in other.limits.remaining
            and (
                name == TOTAL_HOURLY_COST
                or name.startswith(OF_THE_ACCOUNT)
                or other.template.pool.name == fleet.template.pool.name
            )
        ]


def used_up(pod_class: PodClass, fleets: Iterable[Fleet]) -> dict[str, Obstacle]:
    """Map a pool's name to why pods that may use only its reservations have no place there."""
    pools_by_reservation: dict[str, list[str]] = {}
    bought = set()
    for fleet in fleets:
        if fleet.suits(pod_class):
            pool = fleet.template.pool
            names = [name.removeprefix(RESERVATION) for name in pool.limits or {} if name.startswith(RESERVATION)]
            pools_by_reservation.setdefault(pool.name, []).extend(names)
            if not names:
                bought.add(pool.name)
    text = "no free place that fits it is left in capacity reservation {}"
    return {
        name: Obstacle(ObstacleKind.RESERVATIONS, text.format(", ".join(names)))
        for name, names in pools_by_reservation.items()
        if name not in bought
    }
