"""The vCPU quotas of the simulated account, as EC2 divides them: by groups of families, for each capacity type.

The table follows AWS's Service Quotas. It is kept apart from Tenon's own table, so that a mistake there shows. A quota
that no test sets is unlimited.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sandbox.ec2 import catalogue
from sandbox.ec2.launch import LaunchRefusedError

ON_DEMAND = {
    "L-1216C47A": "a c d h i im is m r t z",  # Running On-Demand Standard instances
    "L-DB2E81BA": "g gr vt",
    "L-417A185B": "p",
    "L-74FC7D96": "f",
    "L-7295265B": "x",
    "L-1945791B": "inf",
    "L-2C3B7624": "trn",
    "L-6E869C2A": "dl",
    "L-43DA4232": "u",
    "L-F7808C92": "hpc",
}
SPOT = {
    "L-34B43A08": "a c d h i im is m r t z",  # All Standard Spot Instance Requests
    "L-3819A6DF": "g gr vt",
    "L-7212CCBC": "p2 p3 p4",
    "L-C4BD4855": "p5",
    "L-88CF9481": "f",
    "L-E3A00192": "x",
    "L-B5D1601B": "inf",
    "L-6B0D517C": "trn",
    "L-85EED4F7": "dl",
}
UNLIMITED = 1_000_000
"""What Service Quotas says of a quota that no test sets."""
_FAMILY = re.compile(r"([a-z]+)(\d*)")


class Quotas:
    """Limits in vCPUs. An empty quota code means that nothing limits the type."""

    def __init__(self) -> None:
        self._limits: dict[str, int] = {}

    def set(self, instance_type: str, capacity_type: str, vcpus: int) -> None:
        """Limit the quota that an instance of this type counts against."""
        self._limits[quota_code(instance_type, capacity_type)] = vcpus

    def limits(self) -> dict[str, int]:
        """The limits by quota code, with those that no test sets."""
        return {code: self._limits.get(code, UNLIMITED) for code in (*ON_DEMAND, *SPOT)}

    def clear(self) -> None:
        """Remove every limit."""
        self._limits.clear()

    def refusal(
        self, instance_type: str, capacity_type: str, running: Iterable[tuple[str, str]], count: int = 1
    ) -> LaunchRefusedError | None:
        """EC2's error if these instances exceed their quota.

        ``running`` are the types and capacity types of the account's instances.
        """
        code = quota_code(instance_type, capacity_type)
        limit = self._limits.get(code)
        if limit is None:
            return None
        used = sum(_vcpus(kind) for kind, offers in running if quota_code(kind, offers) == code)
        if used + count * _vcpus(instance_type) <= limit:
            return None
        if capacity_type == "spot":
            return LaunchRefusedError("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
        return LaunchRefusedError(
            "VcpuLimitExceeded",
            f"You have requested more vCPU capacity than your current vCPU limit of {limit} allows for the instance "
            "bucket that the specified instance type belongs to. Please visit "
            "http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit.",
        )


def quota_code(instance_type: str, capacity_type: str) -> str:
    """The code of the quota of a type; empty if the table has none."""
    match = _FAMILY.match(instance_type)
    names = {match[1], match[0]} if match else set()
    table = SPOT if capacity_type == "spot" else ON_DEMAND
    return next((code for code, families in table.items() if names & set(families.split())), "")


def _vcpus(instance_type: str) -> int:
    described = catalogue.describe_type(instance_type)
    return int(described["VCpuInfo"]["DefaultVCpus"]) if described else 0
