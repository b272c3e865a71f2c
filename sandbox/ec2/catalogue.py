"""EC2's instance types and the zones that offer each, from the mock's data.

The mock lists every type in every region, in one slow page. Here types are regional and paged, and each is serialized
only once.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES, InstanceType

from sandbox.ec2.xml import shape_encoder

LIKE = "us-west-2"
"""The region whose types the regions have that the mock's data leaves out, as all of China and GovCloud."""


def complete(region: str, zones: Iterable[str]) -> None:
    """Offer the types of `LIKE` in a region of which the mock has no data."""
    if region in INSTANCE_TYPE_OFFERINGS["region"]:
        return
    names = [str(row["InstanceType"]) for row in INSTANCE_TYPE_OFFERINGS["region"][LIKE]]
    for kind, places in (("region", [region]), ("availability-zone", list(zones))):
        INSTANCE_TYPE_OFFERINGS[kind][region] = [
            {"InstanceType": name, "LocationType": kind, "Location": place} for place in places for name in names
        ]


@cache
def regional_types(region: str) -> dict[str, Any]:
    """The instance types that a region offers, by name, sorted."""
    names = sorted({str(row["InstanceType"]) for row in INSTANCE_TYPE_OFFERINGS["region"].get(region, [])})
    return {name: InstanceType(name) for name in names if name in INSTANCE_TYPES}


@cache
def zonal_offerings(region: str) -> frozenset[tuple[str, str]]:
    """All (type, zone) pairs that a region offers."""
    rows = INSTANCE_TYPE_OFFERINGS["availability-zone"].get(region, [])
    return frozenset((str(row["InstanceType"]), str(row["Location"])) for row in rows)


@cache
def type_xml(name: str) -> str:
    """The XML of one entry of DescribeInstanceTypes."""
    return f"<item>{shape_encoder('InstanceTypeInfo')(dict(InstanceType(name)))}</item>"


def describe_type(name: str) -> dict[str, Any] | None:
    """EC2's description of a type. None if the type is unknown."""
    data: dict[str, Any] | None = INSTANCE_TYPES.get(name)
    return data


def architecture(name: str) -> str:
    """The architecture that EC2 reports for instances of a type: arm64 or x86_64."""
    supported = (describe_type(name) or {}).get("ProcessorInfo", {}).get("SupportedArchitectures", ["x86_64"])
    return "arm64" if "arm64" in supported else "x86_64"
