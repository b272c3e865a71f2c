"""What an instance would have cost if EC2 had not refused cheaper offerings.

A request names up to 60 instance types. EC2 buys the cheapest that it has, which may cost many times the first choice.
And it leaves out what EC2 refused a moment ago.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from tenon.apis import labels
from tenon.ec2.launch.filters import compatible
from tenon.ec2.refusals.unavailable import UnavailableOfferings
from tenon.kube.offerings import OfferingKey
from tenon.kube.requirements import Requirements
from tenon.messages.launch import FleetOverride, Instance, LaunchRequest
from tenon.messages.offerings import OfferingRef
from tenon.resources import Resources
from tenon.scheduling.model import InstanceType


def cheapest_refused(
    request: LaunchRequest, refused: Sequence[OfferingRef], instance: Instance
) -> FleetOverride | None:
    """Return the cheapest offering that EC2 refused in favor of the instance, or a moment ago; None if it refused none.

    A place in a capacity reservation is paid for already, so it has no such offering.

    Args:
        request: the request that bought the instance.
        refused: the offerings that EC2's answer rules out.
        instance: the instance.
    """
    if request.capacity_type == labels.RESERVED:
        return None
    without = UnavailableOfferings(refused_offering.key for refused_offering in refused)
    tried, price = _rows(request), requested_price(request, instance)
    group = request.placement_group
    rows = [row for row in tried if _is_refused(without, request.capacity_type, row.instance_type, row.zone, group)]
    left_out = [request.left_out] if request.left_out is not None else []
    return _cheapest(row for row in (*rows, *left_out) if row.price < price)


def requested_price(request: LaunchRequest, instance: Instance) -> float:
    """Return the instance's price as its request has it, which is comparable with those of other offerings.

    With NodeOverlays it is not what EC2 charges.
    """
    offering = (instance.instance_type, instance.zone)
    prices = (row.price for row in _rows(request) if (row.instance_type, row.zone) == offering)
    return next(prices, instance.price)


def cheapest_left_out(
    requirements: Requirements,
    requests: Resources,
    instance_types: Iterable[InstanceType],
    zones: Iterable[str],
    refused: Container[OfferingKey],
    capacity_type: str,
    *,
    placement_group: str = "",
) -> FleetOverride | None:
    """Return the cheapest offering that a request leaves out because EC2 refused it; None if it leaves none out.

    Args:
        requirements: what the claim requires.
        requests: what its pods and DaemonSets request.
        instance_types: the types as they are sold, with what EC2 refused.
        zones: the zones of the class's subnets.
        refused: the offerings that EC2 refused.
        capacity_type: what the request buys.
        placement_group: the ID of the group that it launches into; empty if into none.
    """
    return _cheapest(
        FleetOverride(instance_type=choice.type.name, zone=offering.zone, subnet_id="", price=offering.price)
        for choice in compatible(requirements, requests, instance_types, frozenset(zones))
        for offering in choice.offerings
        if offering.capacity_type == capacity_type
        and _is_refused(refused, capacity_type, choice.type.name, offering.zone, placement_group)
    )


def _rows(request: LaunchRequest) -> list[FleetOverride]:
    return [row for template in request.templates for row in template.overrides]


def _is_refused(
    refused: Container[OfferingKey], capacity_type: str, instance_type: str, zone: str, placement_group: str
) -> bool:
    """Whether EC2 refused the offering in the placement group or everywhere. A group that is full is no shortage."""
    return (
        OfferingKey.refusable(capacity_type, instance_type, zone, placement_group=placement_group) in refused
        or OfferingKey(capacity_type, instance_type, zone) in refused
    )


def _cheapest(rows: Iterable[FleetOverride]) -> FleetOverride | None:
    return min(rows, key=lambda row: (row.price, row.instance_type, row.zone), default=None)
