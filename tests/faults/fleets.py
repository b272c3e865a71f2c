"""What the sandbox's EC2 was asked to launch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from sandbox.ec2.client import Ec2Admin
from sandbox.ec2.prices import read_prices
from tests.e2e.pools import Pool

Offering = tuple[str, str, str]
"""Capacity type, instance type, zone."""


@dataclass(frozen=True)
class Fleet:
    """One CreateFleet as EC2 received it."""

    token: str
    offerings: frozenset[Offering]
    error: str

    @property
    def cheapest_first(self) -> list[Offering]:
        """Its offerings by price."""
        prices = read_prices()
        return sorted(self.offerings, key=lambda offering: (prices.price(offering[0], offering[1]) or 0.0, offering))


def fleets(ec2: Ec2Admin, pool: Pool) -> list[Fleet]:
    """The fleet requests that were sent for a pool, oldest first, without the dry runs of its EC2NodeClass."""
    calls = (call for call in ec2.calls("CreateFleet") if "DryRun" not in call["parameters"])
    return [_fleet(call) for call in calls if pool.name in call["parameters"].values()]


def _fleet(call: dict[str, Any]) -> Fleet:
    parameters: dict[str, str] = call["parameters"]
    capacity_type = parameters["TargetCapacitySpecification.DefaultTargetCapacityType"]
    rows: dict[str, dict[str, str]] = {}
    for key, value in parameters.items():
        if fullmatch := re.fullmatch(
            r"(LaunchTemplateConfigs\.\d+\.Overrides\.\d+)\.(InstanceType|AvailabilityZone)", key
        ):
            rows.setdefault(fullmatch[1], {})[fullmatch[2]] = value
    offerings = {(capacity_type, row["InstanceType"], row["AvailabilityZone"]) for row in rows.values()}
    return Fleet(parameters["ClientToken"], frozenset(offerings), call["error"])
