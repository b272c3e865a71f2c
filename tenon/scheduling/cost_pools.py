"""Divides a NodePool with a limit on costs by capacity type, so that its spot nodes count at spot prices.

A NodeClaim that may be spot or on-demand would have to count at the on-demand price, because EC2 may have no spot
capacity when it is launched. So a limit on costs would leave most of its amount unused. Nodes of one capacity type each
count at their own price. If EC2 has no spot capacity for one, its pods are planned again, on on-demand nodes.
A plan that the limits allow, whatever EC2 chooses, does not need this: see `within_costs`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tenon.apis import labels
from tenon.kube.requirements import IN, Requirement, Requirements
from tenon.scheduling.model import Pool
from tenon.scheduling.offerings.hourly_cost import limits_cost, sold_as
from tenon.scheduling.offerings.type_table import TypeTables
from tenon.scheduling.packing.fleet import Fleet
from tenon.scheduling.pods.pod_classes import PodClass
from tenon.scheduling.reservations import is_reserved

_CAPACITY_TYPES = (labels.SPOT, labels.ON_DEMAND)
"""In the order in which a launch prefers them."""


def by_capacity_type(pool: Pool, tables: TypeTables) -> list[Pool]:
    """Return the NodePool once for each capacity type that it may buy, if a limit on costs applies to it.

    One with a goal for its share of spot capacity stays whole, so that each claim may become either. All of its nodes
    count at the on-demand price until they are launched.
    """
    if not limits_cost(pool):
        return [pool]
    if is_reserved(pool):
        return [_of_capacity_type(pool, labels.RESERVED, tables)]
    required = pool.requirements.get(labels.CAPACITY_TYPE)
    sold_types = {o.capacity_type for kind in pool.instance_types for o in kind.offerings if o.available}
    bought = [name for name in _CAPACITY_TYPES if name in sold_types and required.has(name)]
    is_mixed = pool.goals is not None and pool.goals.spot_share is not None
    if len(bought) < 2 or required.min_values or is_mixed:
        return [pool]
    return [_of_capacity_type(pool, name, tables) for name in bought]


def _of_capacity_type(pool: Pool, name: str, tables: TypeTables) -> Pool:
    only = Requirements.of(Requirement.new(labels.CAPACITY_TYPE, IN, (name,)))
    types = tables.derived(pool.instance_types, name, lambda: sold_as(pool.instance_types, name))
    return replace(pool, requirements=pool.requirements.with_(only), instance_types=types)


def one_of_each(pod_class: PodClass, fleets: Iterable[Fleet]) -> list[Fleet]:
    """Return one fleet of each NodePool, to explain why pods have no place: the first that the pods may use."""
    fleets_by_pool: dict[str, Fleet] = {}
    for fleet in fleets:
        pool = fleet.template.pool
        earlier = fleets_by_pool.get(pool.name)
        if earlier is None or (_rank(pod_class, fleet) > _rank(pod_class, earlier)):
            fleets_by_pool[pool.name] = fleet
    return list(fleets_by_pool.values())


def _rank(pod_class: PodClass, fleet: Fleet) -> tuple[bool, bool]:
    own = fleet.template.requirements.get(labels.CAPACITY_TYPE)
    is_accepted = any(term.get(labels.CAPACITY_TYPE).overlaps(own) for term in pod_class.terms)
    return fleet.suits(pod_class), is_accepted
