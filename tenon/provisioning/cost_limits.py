"""Limits on what nodes cost an hour: that of a NodePool, in its annotation, and that of all NodePools, in a setting.

A node counts at the price of its offering as plans see it now. If that is not known, because its NodePool cannot be
used or its type is not sold any more, it counts at its price at launch. Without that, as for a node that Karpenter
launched, it counts as other NodePools can buy its type. A NodeClaim without an instance counts at the most that it may
cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite

from tenon.apis import labels
from tenon.apis.hourly_cost import max_hourly_cost
from tenon.apis.nodepool import NodePool
from tenon.provisioning.overlays import PoolTypes
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.resources import Resources
from tenon.scheduling.model import InstanceType, Node, Pool
from tenon.scheduling.offerings.hourly_cost import (
    HOURLY_COST,
    TOTAL_HOURLY_COST,
    micro_dollars,
    priced_node,
    with_costs,
)


@dataclass(frozen=True, slots=True)
class BoughtOffering:
    """What one node of a NodePool, or a NodeClaim that will become one, was bought as."""

    pool: str
    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""
    launch_price: float = 0.0
    """Dollars an hour when it was launched; 0 if unknown."""
    at_most: int = 0
    """What it may cost, in micro-dollars an hour, while it has no instance."""


class PoolOfferingPrices:
    """The prices of what NodePools sell, by instance type, zone and capacity type."""

    def __init__(self, pools_with_types: PoolTypes) -> None:
        """Read the prices of each list once."""
        self._types = {pool.metadata.name: types for pool, types in pools_with_types}
        self._read: dict[int, dict[tuple[str, str, str], float]] = {}
        self._dearest: dict[tuple[str, ...], float] | None = None

    def of(self, pool: str, instance_type: str, zone: str, capacity_type: str) -> float | None:
        """Return dollars an hour of the cheapest such offering; None if the NodePool has none."""
        types = self._types.get(pool)
        if types is None:
            return None
        return self._of_list(types).get((instance_type, zone, capacity_type))

    def of_node(self, bought: BoughtOffering) -> float:
        """Return dollars an hour at which a node counts; 0 if no price is known.

        The launch price of a node in a reservation is what EC2 charges, which plans count as paid for.
        """
        offering = bought.instance_type, bought.zone, bought.capacity_type
        price = self.of(bought.pool, *offering)
        if price is not None:
            return price
        launch_price = 0.0 if bought.capacity_type == labels.RESERVED else bought.launch_price
        return launch_price or self.anywhere(*offering)

    def anywhere(self, instance_type: str, zone: str, capacity_type: str) -> float:
        """Return the most dollars an hour at which any NodePool has such an offering; 0 if that is not known.

        If none has it in the zone, other zones count, and then other capacity types. A reservation is paid for anyway.
        """
        if not instance_type:
            return 0.0
        if self._dearest is None:
            dearest: dict[tuple[str, ...], float] = {}
            self._dearest = dearest
            for types in {id(types): types for types in self._types.values()}.values():  # many NodePools share a list
                for key, price in self._of_list(types).items():
                    if isfinite(price):
                        for part in (key, (key[0], key[2]), key[:1]):
                            dearest[part] = max(price, dearest.get(part, 0.0))
        keys: list[tuple[str, ...]] = [(instance_type, zone, capacity_type), (instance_type, capacity_type)]
        if capacity_type != labels.RESERVED:
            keys.append((instance_type,))
        return next((self._dearest[key] for key in keys if key in self._dearest), 0.0)

    def _of_list(self, types: Sequence[InstanceType]) -> dict[tuple[str, str, str], float]:
        prices = self._read.get(id(types))
        if prices is None:
            prices = self._read[id(types)] = {}
            for kind in types:
                for offering in kind.offerings:
                    key = (kind.name, offering.zone, offering.capacity_type)
                    prices[key] = min(offering.price, prices.get(key, offering.price))
        return prices


def costs_of(purchases: Iterable[BoughtOffering], pools_with_types: PoolTypes) -> dict[str, int]:
    """Return what the nodes of each NodePool cost, in micro-dollars an hour."""
    prices = PoolOfferingPrices(pools_with_types)
    costs: dict[str, int] = {}
    for bought in purchases:
        cost = bought.at_most or micro_dollars(prices.of_node(bought))
        costs[bought.pool] = costs.get(bought.pool, 0) + cost
    return costs


def cost_limits(pool: NodePool, policy: PlanPolicy) -> Resources:
    """Return the limits on costs that apply to a NodePool; empty if there are none."""
    own = max_hourly_cost(pool.metadata.annotations)
    return {
        **({HOURLY_COST: own} if own is not None else {}),
        **({TOTAL_HOURLY_COST: micro_dollars(policy.max_hourly_cost)} if policy.max_hourly_cost else {}),
    }


def cost_usage(pool: str, costs: Mapping[str, int]) -> Resources:
    """Return what a NodePool uses of its limits on costs. ``costs``: what the nodes of each NodePool cost."""
    return {HOURLY_COST: costs.get(pool, 0), TOTAL_HOURLY_COST: sum(costs.values())}


def with_cost_limits(
    pools: Sequence[Pool],
    pools_with_types: PoolTypes,
    purchases: Callable[[], Iterable[BoughtOffering]],
    policy: PlanPolicy,
) -> list[Pool]:
    """Return the NodePools with their limits on costs.

    Args:
        pools: the NodePools for the engine.
        pools_with_types: the same NodePools, with all that their classes sell.
        purchases: returns what was bought for all NodePools; called only if there is such a limit.
        policy: the operator's settings.
    """
    limits = [cost_limits(pool, policy) for pool, _ in pools_with_types]
    if not any(limits):
        return list(pools)
    costs = costs_of(purchases(), pools_with_types)
    return [_limited(pool, own, costs) if own else pool for pool, own in zip(pools, limits, strict=True)]


def _limited(pool: Pool, limits: Resources, costs: Mapping[str, int]) -> Pool:
    used = {name: amount for name, amount in cost_usage(pool.name, costs).items() if name in limits}
    return with_costs(replace(pool, limits={**(pool.limits or {}), **limits}, usage={**pool.usage, **used}))


def priced_nodes(nodes: Iterable[Node], pools_with_types: PoolTypes) -> list[Node]:
    """Return the nodes with their prices, which replacements may use of the limits on costs."""
    prices = PoolOfferingPrices(pools_with_types)
    return [_priced(node, prices) for node in nodes]


def _priced(node: Node, prices: PoolOfferingPrices) -> Node:
    pool, *offering = (
        node.labels.get(key, "") for key in (labels.NODEPOOL, labels.INSTANCE_TYPE, labels.ZONE, labels.CAPACITY_TYPE)
    )
    price = prices.of(pool, *offering)
    return node if price is None else priced_node(node, price)
