"""What nodes cost an hour, as a resource that NodePools may limit like CPU and memory.

Each instance type of a NodePool with such a limit has its price as a part of its capacity: that of the dearest offering
that a node may be bought by, because EC2 chooses among them. So limits on costs are planned, shared and explained by
what plans other limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import ceil, isfinite

from tenon.apis import labels
from tenon.apis.hourly_cost import MICRO_DOLLARS
from tenon.kube.requirements import Requirements
from tenon.money import per_hour, price_text
from tenon.resources import add
from tenon.scheduling.model import InstanceType, Node, Pool

HOURLY_COST = "tenon.sh/hourly-cost"
"""What the nodes of one NodePool cost, in micro-dollars an hour."""
TOTAL_HOURLY_COST = "tenon.sh/total-hourly-cost"
"""What the nodes of all NodePools cost, in micro-dollars an hour."""
COSTS = (HOURLY_COST, TOTAL_HOURLY_COST)
UNKNOWN_PRICE = 10**18
"""The cost of an offering without a price: beyond every limit."""


def micro_dollars(price: float) -> int:
    """Return a price in dollars an hour as micro-dollars, rounded up."""
    return ceil(round(price * MICRO_DOLLARS, 3)) if isfinite(price) else UNKNOWN_PRICE


def limits_cost(pool: Pool) -> bool:
    """Whether a limit on costs applies to the NodePool."""
    return any(name in COSTS for name in pool.limits or {})


def with_costs(pool: Pool) -> Pool:
    """Return the NodePool with what a node of each of its types may cost, if a limit on costs applies to it."""
    names = [name for name in COSTS if name in (pool.limits or {})]
    if not names:
        return pool
    types = [_with_cost(kind, pool.requirements, names) for kind in pool.instance_types]
    return replace(pool, instance_types=types)


def sold_as(types: Iterable[InstanceType], capacity_type: str) -> list[InstanceType]:
    """Return those of the types of `with_costs` that are sold as one capacity type, with what such a node may cost."""
    result = []
    for kind in types:
        if offerings := tuple(o for o in kind.offerings if o.capacity_type == capacity_type):
            cost = kind.capacity.get(cost_as(capacity_type), 0)
            costs = {name: cost for name in COSTS if name in kind.capacity}
            result.append(replace(kind, offerings=offerings, capacity=kind.capacity | costs))
    return result


def _with_cost(kind: InstanceType, requirements: Requirements, names: Iterable[str]) -> InstanceType:
    costs: dict[str, int] = {}
    for offering in kind.offerings:
        if offering.available and offering.meets(requirements):
            own = micro_dollars(offering.price)
            for key in (*names, cost_as(offering.capacity_type)):
                costs[key] = max(own, costs.get(key, 0))
    return replace(kind, capacity={**kind.capacity, **dict.fromkeys(names, 0), **costs})


def cost_as(capacity_type: str) -> str:
    """The part of a type's capacity that says what it costs as one capacity type. Prices may be others by then: where
    limits bind, the engine also plans with types that cost what they use up.
    """
    return f"{HOURLY_COST}/{capacity_type}"


def priced_node(node: Node, price: float) -> Node:
    """Return the node with its price, for NodePools with a limit on costs."""
    return replace(node, capacity={**node.limited, **dict.fromkeys(COSTS, micro_dollars(price))})


def total_cost(nodes: Iterable[Node]) -> int:
    """Return what the nodes count against the limit of all NodePools."""
    return sum(node.limited.get(TOTAL_HOURLY_COST, 0) for node in nodes)


def with_used(pools: Mapping[str, Pool], name: str, amounts: Mapping[str, int]) -> dict[str, Pool]:
    """Return the NodePools once nodes of the one with this name use so much more of its limits. Costs that all
    NodePools share count for the others too.
    """
    shared = amounts.get(TOTAL_HOURLY_COST, 0)
    changed = {**pools, name: replace(pools[name], usage=add(pools[name].usage, amounts))}
    if shared:
        changed |= {
            other: replace(pool, usage=add(pool.usage, {TOTAL_HOURLY_COST: shared}))
            for other, pool in pools.items()
            if other != name and TOTAL_HOURLY_COST in (pool.limits or {})
        }
    return changed


def limit_text(name: str, amount: int) -> str:
    """Name a limit on costs as its owner wrote it."""
    return f"{labels.MAX_HOURLY_COST if name == HOURLY_COST else 'MAX_HOURLY_COST'} {dollars_text(amount)}"


def lacking_text(name: str, remaining: int, least: int) -> str:
    """Say how much of a limit on costs is left, and what the smallest node for a pod may cost."""
    whose = "" if name == HOURLY_COST else " for all NodePools"
    return (
        f"{per_hour(max(0, remaining) / MICRO_DOLLARS)} is left{whose}, and the smallest node for the pod may cost "
        f"{price_text(least / MICRO_DOLLARS)}"
    )


def dollars_text(amount: int) -> str:
    """Format micro-dollars for people: $40, $2.50 or $0.0432."""
    dollars = amount / MICRO_DOLLARS
    if amount % MICRO_DOLLARS == 0:
        return f"${dollars:.0f}"
    return f"${dollars:.2f}" if amount % (MICRO_DOLLARS // 100) == 0 else f"${dollars:.4f}"
