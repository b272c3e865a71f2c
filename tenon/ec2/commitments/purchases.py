"""What AWS says of Reserved Instances and Savings Plans, as commitments: what each covers, and how much of it.

Only what covers on-demand instances of Linux in shared tenancy counts, because only such nodes are planned with it.
Reserved Instances for one zone cover one instance type there. Those for the region cover every size of their family, in
proportion to AWS's normalization factors; for some families they cover one type only. An EC2 Instance Savings Plan
covers a family, and a Compute Savings Plan nearly everything, each at the rate that AWS states for a type.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, InvalidOperation
from typing import Any

from tenon.apis.hourly_cost import MICRO_DOLLARS
from tenon.scheduling.model import Commitment

LINUX = "Linux/UNIX"
ACTIVE = "active"
PLAN_KINDS = ("EC2Instance", "Compute")
"""The types of Savings Plans that cover EC2, in the order in which AWS uses them."""
BOX_USAGE = "BoxUsage"
"""In the usage type of an instance that runs. Capacity reservations that no one uses have another one."""
_NAMED_SIZES = {"nano": 25, "micro": 50, "small": 100, "medium": 200, "large": 400, "xlarge": 800}
"""AWS's normalization factors in hundredths."""
_MULTIPLE = re.compile(r"(?:metal-)?(?P<times>[0-9]{1,3})xl(?:arge)?")
_ONE_SIZE = frozenset(["g4ad", "g4dn", "g5", "g5g", "g6", "g6e", "g6f", "gr6", "gr6f", "hpc7a", "inf1", "inf2", "p5"])
"""Families of which regional Reserved Instances cover one size only."""


def reserved_instances(
    descriptions: Iterable[Mapping[str, Any]], type_names: Collection[str], now: datetime
) -> list[Commitment]:
    """Return what DescribeReservedInstances lists: first what covers one zone, then what covers the region.

    Args:
        descriptions: the Reserved Instances as EC2 describes them.
        type_names: the instance types of the region.
        now: the time.
    """
    zonal: dict[tuple[str, str], int] = {}
    of_one_type: dict[str, int] = {}
    flexible: dict[str, int] = {}
    for description in descriptions:
        if not _is_in_use(description, now):
            continue
        name, count = str(description["InstanceType"]), int(description["InstanceCount"])
        sizes = _sizes(_family(name), type_names)
        if description.get("Scope") == "Availability Zone":
            key = name, str(description["AvailabilityZone"])
            zonal[key] = zonal.get(key, 0) + count
        elif name in sizes:
            flexible[_family(name)] = flexible.get(_family(name), 0) + count * sizes[name]
        else:
            of_one_type[name] = of_one_type.get(name, 0) + count
    return [
        *(
            Commitment(f"Reserved Instances of {n} in {zone}", zonal[n, zone], {n: 1}, zone)
            for n, zone in sorted(zonal)
        ),
        *(Commitment(f"Reserved Instances of {n}", of_one_type[n], {n: 1}) for n in sorted(of_one_type)),
        *(
            Commitment(f"Reserved Instances of {family}", flexible[family], _sizes(family, type_names))
            for family in sorted(flexible)
        ),
    ]


def _is_in_use(description: Mapping[str, Any], now: datetime) -> bool:
    end: datetime | None = description.get("End")
    return (
        description.get("State") == ACTIVE
        and (end is None or end > now)
        and description.get("InstanceTenancy", "default") == "default"
        and str(description.get("ProductDescription", "")).startswith(LINUX)
    )


def _family(type_name: str) -> str:
    return type_name.partition(".")[0]


def _sizes(family: str, type_names: Collection[str]) -> dict[str, int]:
    """Return the sizes of a family in hundredths of AWS's unit, by type; empty if each type is covered apart.

    A type that is only called metal is as large as the largest other one.
    """
    if family in _ONE_SIZE or family.startswith("u"):
        return {}
    names = [name for name in type_names if _family(name) == family]
    sizes = {name: size for name in names if (size := _size(name.partition(".")[2]))}
    largest = max(sizes.values(), default=0)
    return sizes | {name: largest for name in names if name.endswith(".metal") and largest}


def _size(text: str) -> int:
    if match := _MULTIPLE.fullmatch(text):
        return int(match["times"]) * _NAMED_SIZES["xlarge"]
    return _NAMED_SIZES.get(text, 0)


def savings_plan(
    description: Mapping[str, Any], rates: Iterable[Mapping[str, Any]], region: str, type_names: Collection[str]
) -> Commitment | None:
    """Return a Savings Plan; None if it covers no instance type of the region.

    Args:
        description: the plan as DescribeSavingsPlans lists it.
        rates: what DescribeSavingsPlanRates lists for it.
        region: the region.
        type_names: the instance types of the region.
    """
    amount = _amount(description.get("commitment"))
    if description.get("state") != ACTIVE or description.get("savingsPlanType") not in PLAN_KINDS or not amount:
        return None
    units: dict[str, int] = {}
    for entry in rates:
        properties = {str(item.get("name")): str(item.get("value")) for item in entry.get("properties") or ()}
        name, rate = properties.get("instanceType", ""), _amount(entry.get("rate"))
        is_for_nodes = (
            entry.get("productType") == "EC2"
            and BOX_USAGE in str(entry.get("usageType"))
            and properties.get("region") == region
            and properties.get("productDescription") == LINUX
            and properties.get("tenancy") == "shared"
        )
        if is_for_nodes and rate and name in type_names:
            used = int((rate * MICRO_DOLLARS).to_integral_value(ROUND_CEILING))
            units[name] = max(used, units.get(name, 0))
    committed_amount = int((amount * MICRO_DOLLARS).to_integral_value(ROUND_FLOOR))
    return Commitment(f"Savings Plan {description['savingsPlanId']}", committed_amount, units) if units else None


def _amount(text: object) -> Decimal | None:
    """Return an amount of money that AWS writes as a text; None if it is malformed or not positive."""
    try:
        amount = Decimal(str(text))
    except InvalidOperation:
        return None
    return amount if amount.is_finite() and amount > 0 else None
