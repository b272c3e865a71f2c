"""The instance types of a whole region with their prices, as an AL2023 class without further settings has them.

They are for plans away from the cluster, which apply the EC2NodeClasses themselves.
"""

from __future__ import annotations

import time

from activities.ec2.client import Ec2
from activities.ec2.errors import translated
from activities.ec2.pricing import Pricing
from activities.ec2.region_types import RegionTypesReader
from tenon.ec2.types.capacity import NodeSettings
from tenon.ec2.types.instance_types import build, supported
from tenon.scheduling.model import InstanceType


def regional_types(clients: Ec2, pricing: Pricing) -> list[InstanceType]:
    """Return the types that can be bought in the region, sorted by name.

    Raises:
        EC2Error: EC2 could not be read.
    """
    region = RegionTypesReader(clients, time.monotonic).current()
    zone_ids, settings = _zone_ids(clients), NodeSettings()
    _, prices = pricing.current()
    types = (
        build(
            item,
            clients.region,
            settings,
            {zone: zone_ids.get(zone, "") for zone in region.zones.get(item["InstanceType"], ())},
            prices,
        )
        for item in region.described()
        if supported(item, settings)
    )
    return [instance_type for instance_type in types if instance_type is not None]


def _zone_ids(clients: Ec2) -> dict[str, str]:
    """The IDs of the zones in which the account has subnets. Each account has its own."""
    zone_ids: dict[str, str] = {}
    with translated("DescribeSubnets"):
        for page in clients.ec2.get_paginator("describe_subnets").paginate():
            zone_ids |= {subnet["AvailabilityZone"]: subnet["AvailabilityZoneId"] for subnet in page["Subnets"]}
    return zone_ids
