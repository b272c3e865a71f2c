"""The instance types of which EC2 refuses something, and what is said about that.

It knows nothing of the scheduling engine, which not every process of a worker loads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final

from tenon.apis import labels
from tenon.ec2.refusals.unavailable import refusals_of, shortages_of
from tenon.ec2.types import placement_groups
from tenon.kube.offerings import OfferingKey
from tenon.kube.pool_reasons import Obstacle, ObstacleKind
from tenon.kube.requirements import Requirements
from tenon.resources import Resources
from tenon.scheduling.model import InstanceType, Offering

Refused = Mapping[OfferingKey, datetime]
"""What EC2 refused, with the time when Tenon asks for it again."""
NOTHING_REFUSED: Final[Refused] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RefusedType:
    """An instance type with the offerings that EC2 refuses, each with the refusals that are about it."""

    kind: InstanceType
    room: Resources
    offerings: Sequence[tuple[Offering, Sequence[OfferingKey]]]

    def refusals(self, requirements: Requirements) -> Iterator[OfferingKey]:
        """Yield the refusals of the offerings that a node with these requirements could have."""
        if not self.kind.requirements.intersects(requirements):
            return
        zones, capacity_types = requirements.get(labels.ZONE), requirements.get(labels.CAPACITY_TYPE)
        for offering, keys in self.offerings:
            if zones.has(offering.zone) and capacity_types.has(offering.capacity_type):
                yield from keys


def refusals_among(types: Iterable[InstanceType], requirements: Requirements, refused: Refused) -> tuple[Obstacle, ...]:
    """Say what EC2 refuses of the types that these requirements allow, with the next attempt; empty for nothing."""
    refused_types = refused_types_of(types, refused) if refused else []
    return obstacles_of((key for own in refused_types for key in own.refusals(requirements)), refused)


def refused_types_of(types: Iterable[InstanceType], refused: Refused) -> list[RefusedType]:
    """Return the types that EC2 refuses, with the offerings that it refuses. Those that no image boots are left out."""
    refused_types = []
    for kind in types:
        offerings = [
            (offering, keys)
            for offering in (kind.offerings if kind.has_image else ())
            if not offering.available and (keys := _refusals(kind, offering, refused))
        ]
        if offerings:
            refused_types.append(RefusedType(kind, kind.allocatable, offerings))
    return refused_types


def _refusals(kind: InstanceType, offering: Offering, refused: Refused) -> list[OfferingKey]:
    key = OfferingKey.refusable(offering.capacity_type, kind.name, offering.zone, offering.reservation_id)
    if keys := refusals_of(refused, key):
        return keys
    group = placement_groups.group_id(kind.requirements)
    in_group = (
        OfferingKey.refusable(offering.capacity_type, name, offering.zone, placement_group=group)
        for name in (kind.name, "")
    )
    return [key for key in in_group if key in refused] if group else []


def obstacles_of(keys: Iterable[OfferingKey], refused: Refused) -> tuple[Obstacle, ...]:
    """Say what these refusals are about, with the next attempt; empty for none."""
    shortages = shortages_of({key: refused[key] for key in keys})
    return tuple(Obstacle(ObstacleKind.CAPACITY, shortage.text, shortage.next_attempt) for shortage in shortages)
