"""What each offering costs in each NodePool, where the details of nodes look up the prices of their own (DIS-25)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tenon.scheduling.model import InstanceType

PoolPrices = Mapping[tuple[str, str, str, str], float]
"""Dollars an hour by NodePool, instance type, zone and capacity type."""


def pool_prices(types: Mapping[str, Sequence[InstanceType]], type_names: Collection[str]) -> PoolPrices:
    """Return the price of every offering of the instance types with these names.

    Args:
        types: by NodePool, its instance types. Their prices may differ, because NodeOverlays select NodePools.
        type_names: those that nodes have, which are few of all types.
    """
    return {
        (pool, instance_type.name, offering.zone, offering.capacity_type): offering.price
        for pool, pool_types in types.items()
        for instance_type in pool_types
        if instance_type.name in type_names
        for offering in instance_type.offerings
    }
