"""Faults of EC2's capacity: some pools, or the cheapest ones, are empty."""

from __future__ import annotations

from typing import Annotated

from sandbox.cluster import Sandbox
from sandbox.faults.registry import Done, fault

CapacityType = Annotated[str, "spot or on-demand; empty for both."]


def _refill(sandbox: Sandbox) -> None:
    sandbox.ec2().clear_capacity()


@fault("no-capacity", heal=_refill)
def none_left(
    sandbox: Sandbox,
    type: Annotated[str, "Instance type; empty for all."] = "",
    zone: Annotated[str, "Zone; empty for all."] = "",
    capacity_type: CapacityType = "",
    available: Annotated[int, "Instances left in each pool."] = 0,
) -> Done:
    """EC2 answers InsufficientInstanceCapacity for all pools that fit."""
    sandbox.ec2().capacity(available, type=type or None, zone=zone or None, capacity_type=capacity_type or None)
    return []


def _create_spot_role(sandbox: Sandbox) -> None:
    sandbox.ec2().spot_role(True)


@fault("spot-role-missing", heal=_create_spot_role)
def spot_role_missing(sandbox: Sandbox) -> Done:
    """The account has no service-linked role for spot, and the worker may not create it."""
    sandbox.ec2().spot_role(False)
    return []


@fault("cheapest-exhausted", heal=_refill)
def cheapest_exhausted(
    sandbox: Sandbox,
    count: Annotated[int, "How many pools of type, zone and capacity type."] = 3,
    capacity_type: CapacityType = "",
    types: Annotated[str, "Only among these types, separated by commas."] = "",
) -> Done:
    """EC2 has nothing left in the cheapest pools; each time it is applied, the next cheapest."""
    expectation = [item.strip() for item in types.split(",") if item.strip()]
    return sandbox.ec2().exhaust_cheapest(count, capacity_type=capacity_type or None, types=expectation)
