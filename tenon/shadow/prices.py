"""The instance types of a catalogue as a region sells them: its zones, and its prices of now."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from tenon.apis import labels
from tenon.ec2.types.instance_types import Prices
from tenon.kube.requirements import IN, Requirement, Requirements
from tenon.scheduling.model import InstanceType, Offering


def sold_in(kinds: Iterable[InstanceType], region: str, zones: Collection[str], prices: Prices) -> list[InstanceType]:
    """Return the types that the region has a price for.

    Args:
        kinds: the types of another region.
        region: its name.
        zones: those that are used.
        prices: of the region. Without spot prices, a spot node costs the same part of on-demand as in the catalogue.
    """
    sold_types = []
    for kind in kinds:
        on_demand = prices.on_demand.get(kind.name)
        if on_demand is None:
            continue
        others = [requirement for key, requirement in kind.requirements.items() if key != labels.REGION]
        requirements = Requirements.of(*others, Requirement.new(labels.REGION, IN, [region]))
        offerings = tuple(_offerings(kind, sorted(zones), on_demand, prices))
        sold_types.append(replace(kind, requirements=requirements, offerings=offerings))
    return sold_types


def _offerings(kind: InstanceType, zones: Iterable[str], on_demand: float, prices: Prices) -> Iterator[Offering]:
    share = _spot_share(kind)
    for zone in zones:
        yield Offering(zone, labels.ON_DEMAND, on_demand)
        if prices.spot:
            spot = prices.spot.get((kind.name, zone))
        else:
            spot = None if share is None else round(on_demand * share, 6)
        if spot is not None:
            yield Offering(zone, labels.SPOT, spot)


def _spot_share(kind: InstanceType) -> float | None:
    """Return what spot costs as a part of on-demand; None if the catalogue has no spot offering."""
    by_capacity = {offering.capacity_type: offering.price for offering in kind.offerings}
    spot, on_demand = by_capacity.get(labels.SPOT), by_capacity.get(labels.ON_DEMAND)
    return spot / on_demand if spot is not None and on_demand else None
