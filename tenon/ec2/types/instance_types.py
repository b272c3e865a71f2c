"""Converts EC2's description of an instance type into the form that the scheduling engine uses."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from typing import Any

from tenon.apis import labels
from tenon.apis.expressions import ExpressionError
from tenon.ec2.types import capacity, placement_groups
from tenon.ec2.types.capacity import Item, NodeSettings
from tenon.ec2.types.capacity_reservations import RESERVATION_LABELS
from tenon.ec2.types.expressions import evaluate_settings
from tenon.ec2.types.instance_labels import architectures, label_values
from tenon.kube.offerings import OfferingKey
from tenon.kube.requirements import Requirement, Requirements
from tenon.resources import Resources
from tenon.scheduling.model import InstanceType, Offering

_CAPACITY_TYPES = {"on-demand": labels.ON_DEMAND, "spot": labels.SPOT}
"""The usage classes of EC2 that Tenon buys, with their capacity types."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices in dollars per hour. A type without a price cannot be bought, unless a NodeOverlay sets one."""

    on_demand: Mapping[str, float] = field(default_factory=dict)
    spot: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """By (instance type, zone). If there are any prices, a zone without one sells no spot capacity.

    Otherwise spot capacity counts at the on-demand price, which it never exceeds by default.
    """

    def of(self, name: str, zone: str, capacity_type: str) -> float | None:
        """Return the price of an offering; None if it is not sold."""
        if capacity_type != labels.SPOT:
            return self.on_demand.get(name)
        if self.spot:
            return self.spot.get((name, zone))
        return self.on_demand.get(name)

    def in_dedicated_tenancy(self, on_demand: Mapping[str, float]) -> Prices:
        """These prices with those of dedicated instances. Bare metal has one price, and spot capacity has one too."""
        metal = {name: price for name, price in self.on_demand.items() if name.partition(".")[2].startswith("metal")}
        return Prices(on_demand={**metal, **on_demand}, spot=self.spot)

    def knows(self, name: str, zones: Iterable[str]) -> bool:
        """True if the type has any known price in these zones."""
        return any(
            self.of(name, zone, capacity_type) is not None
            for zone in zones
            for capacity_type in _CAPACITY_TYPES.values()
        )


def without_list_price(items: Iterable[Item], prices: Prices) -> list[str]:
    """The types that EC2 sells on demand and whose images exist, but that have no on-demand price."""
    return [
        item["InstanceType"]
        for item in items
        if item["InstanceType"] not in prices.on_demand
        and "on-demand" in item.get("SupportedUsageClasses", ())
        and "hvm" in item.get("SupportedVirtualizationTypes", ())
        and architectures(item)
    ]


def supports_enclaves(item: Item) -> bool:
    """True if instances of the type can run Nitro enclaves."""
    return item.get("NitroEnclavesSupport") == "supported"


def supported(item: Item, settings: NodeSettings) -> bool:
    """True if a node of this class can run on the type."""
    nitro = item.get("Hypervisor") == "nitro" or item.get("BareMetal", False)
    network = item["NetworkInfo"]
    bootable = {"amd64"} if settings.family.os == "windows" else {"amd64", "arm64"}
    return (
        "hvm" in item.get("SupportedVirtualizationTypes", ())
        and not bootable.isdisjoint(architectures(item))
        and item["InstanceType"].partition(".")[0] not in settings.family.unbootable_types
        and (nitro or not settings.needs_nitro)
        and placement_groups.takes(settings.placement_group, item)
        and _has_places(network, settings.device_indexes)
        and network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0) >= len(settings.efa_only_interfaces)
        and (
            not settings.needs_nested_virtualization
            or "nested-virtualization" in item["ProcessorInfo"].get("SupportedFeatures", ())
        )
        and (not settings.needs_enclaves or supports_enclaves(item))
    )


def _has_places(network: Mapping[str, Any], device_indexes: Mapping[int, int]) -> bool:
    """True if the network cards have the device indexes, which begin at 0."""
    return network.get("MaximumNetworkCards", 1) > max(device_indexes, default=0) and all(
        device_indexes.get(card["NetworkCardIndex"], 0) < card["MaximumNetworkInterfaces"]
        for card in network.get("NetworkCards", ())
    )


@dataclass(frozen=True, slots=True)
class Description:
    """What a node class makes of an instance type, whatever its offerings are."""

    values: Mapping[str, list[str]]
    """Its labels with their possible values, except those that its offerings decide."""
    capacity: Resources
    overhead: Resources


def described(item: Item, region: str, settings: NodeSettings) -> Description:
    """Return the labels and resources of nodes of this type in a class.

    Raises:
        ExpressionError: an expression of the class has no value for the type.
    """
    settings = evaluate_settings(item, settings)
    return Description(
        label_values(item, region, settings.family) | placement_groups.label_values(settings.placement_group),
        capacity.capacity(item, settings),
        capacity.overhead(item, settings),
    )


def build(
    item: Item,
    region: str,
    settings: NodeSettings,
    zone_ids: Mapping[str, str],
    prices: Prices,
    *,
    unpriced: bool = False,
    reserved: Sequence[Offering] = (),
) -> InstanceType | None:
    """Return the type with its labels, resources and offerings. ``zone_ids`` maps the zones that sell it to their IDs.

    ``reserved`` are the offerings of capacity reservations. Labels of reservations then depend on the offering.

    Return None if no offering of it can be bought, or if an expression of the class has no value for it. With
    ``unpriced``, a type without any known price keeps all its offerings, at an infinite price.
    """
    name = item["InstanceType"]
    unknown = inf if unpriced and not prices.knows(name, zone_ids) else None
    offerings = tuple(
        Offering(zone=zone, capacity_type=capacity_type, price=price, zone_id=zone_ids[zone])
        for usage in sorted(item.get("SupportedUsageClasses", ()))
        if (capacity_type := _CAPACITY_TYPES.get(usage))
        for zone in sorted(zone_ids)
        if (price := _first(prices.of(name, zone, capacity_type), unknown)) is not None
    )
    offerings = (*offerings, *reserved)
    if not offerings:
        return None
    try:
        instance_type = described(item, region, settings)
    except ExpressionError:
        return None  # the condition of the class reports it
    values = dict(instance_type.values) | {
        labels.ZONE: sorted({offering.zone for offering in offerings}),
        labels.ZONE_ID: sorted({offering.zone_id for offering in offerings if offering.zone_id}),
        labels.CAPACITY_TYPE: sorted({offering.capacity_type for offering in offerings}),
    }
    if reserved:
        values = {key: listed for key, listed in values.items() if key not in RESERVATION_LABELS}
    return InstanceType(
        name=name,
        requirements=_requirements(values),
        capacity=instance_type.capacity,
        overhead=instance_type.overhead,
        offerings=offerings,
    )


def _first(price: float | None, otherwise: float | None) -> float | None:
    return otherwise if price is None else price


def requirement_of(key: str, values: Iterable[str]) -> Requirement:
    """Return the requirement of a type whose label has these values; it must not exist if there are none."""
    return _requirement(key, tuple(values))


def _requirements(values: Mapping[str, list[str]]) -> Requirements:
    return Requirements.of(*(_requirement(key, tuple(members)) for key, members in values.items()))


@lru_cache(32_768)
def _requirement(key: str, members: tuple[str, ...]) -> Requirement:
    """A label's requirement. Types share most of them, so the types of a class take a quarter of the memory."""
    return Requirement.new(key, "In" if members else "DoesNotExist", members)


def without(instance_types: Iterable[InstanceType], unavailable: Container[OfferingKey]) -> list[InstanceType]:
    """Mark the refused offerings as unavailable, and full reservations as full. Other types stay the same objects.

    A type that is launched into a placement group also lacks what EC2 refused in this group.
    """
    return [_marked(instance_type, unavailable) for instance_type in instance_types]


def _marked(instance_type: InstanceType, unavailable: Container[OfferingKey]) -> InstanceType:
    group = placement_groups.group_id(instance_type.requirements)
    refused = [
        OfferingKey.refusable(
            old_offering.capacity_type, instance_type.name, old_offering.zone, old_offering.reservation_id
        )
        in unavailable
        or (
            group != ""
            and any(
                OfferingKey.refusable(old_offering.capacity_type, name, old_offering.zone, placement_group=group)
                in unavailable
                for name in (instance_type.name, "")
            )
        )
        for old_offering in instance_type.offerings
    ]
    full = [_is_full(offering, unavailable) for offering in instance_type.offerings]
    if not any(refused) and not any(full):
        return instance_type
    offerings = tuple(
        dataclasses.replace(
            offering,
            available=offering.available and not is_refused,
            reservation_capacity=0 if is_full else offering.reservation_capacity,
        )
        for offering, is_refused, is_full in zip(instance_type.offerings, refused, full, strict=True)
    )
    return dataclasses.replace(instance_type, offerings=offerings)


def _is_full(offering: Offering, unavailable: Container[OfferingKey]) -> bool:
    """Whether EC2 said not long ago that the offering's reservation is full."""
    name = offering.reservation_id
    return name != "" and OfferingKey.of_full_reservation(offering.capacity_type, offering.zone, name) in unavailable
