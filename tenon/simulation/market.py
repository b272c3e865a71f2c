"""Changes of EC2's market that a user asks about: another price of instance types, or no capacity of them.

A price is changed by a NodeOverlay, and capacity as by a refusal of EC2, so that both mean what they mean in a cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase

from tenon.apis import labels
from tenon.apis.common import ObjectMeta
from tenon.apis.nodeoverlay import (
    ADJUSTMENT_PATTERN,
    PRICE_PATTERN,
    NodeOverlay,
    NodeOverlaySpec,
    OverlayRequirement,
)
from tenon.ec2.refusals.unavailable import UNAVAILABLE_OFFERINGS_TTL
from tenon.kube.offerings import OfferingKey
from tenon.manifests.faults import ManifestError, Source
from tenon.scheduling.model import InstanceType, Offering
from tenon.sentences import nearest

_LEAST_WEIGHT = 9_000
"""NodeOverlays of a manifest rarely weigh as much, so the change wins. Of two changes, the later one does."""


@dataclass(frozen=True, slots=True)
class MarketChange:
    """A change for the offerings of some instance types."""

    instance_type: str
    """A name, or a pattern such as ``m5.*`` or ``*``."""
    capacity_type: str = ""
    """Empty for each."""
    zone: str = ""
    """Empty for each."""
    price: str = ""
    """Dollars an hour, such as ``0.12``, or what is added, such as ``+10%`` or ``-0.05``; empty for no change."""
    is_unavailable: bool = False
    """EC2 has no capacity."""

    def has(self, name: str, offering: Offering) -> bool:
        """True if the change is about this offering of the type with this name."""
        return (
            fnmatchcase(name, self.instance_type)
            and self.capacity_type in ("", offering.capacity_type)
            and self.zone in ("", offering.zone)
        )


def problems(changes: Sequence[MarketChange], types: Sequence[InstanceType]) -> Iterator[ManifestError]:
    """Yield what is wrong with the changes."""
    names = [kind.name for kind in types]
    for number, change in enumerate(changes, 1):
        source = Source(f"change {number} of prices and capacity")
        if not any(fnmatchcase(name, change.instance_type) for name in names):
            meant = nearest(change.instance_type, names)
            hint = f": did you mean {meant}?" if meant else ": write one such as m5.large, or m5.* for a family"
            yield ManifestError(source, f"{change.instance_type!r} is no instance type of the catalogue{hint}")
        elif not any(change.has(kind.name, offering) for kind in types for offering in kind.offerings):
            where = " in ".join(part for part in (change.capacity_type, change.zone) if part)
            yield ManifestError(source, f"the catalogue sells no {change.instance_type} {where}")
        if change.price and not re.fullmatch(f"{PRICE_PATTERN}|{ADJUSTMENT_PATTERN}", change.price):
            yield ManifestError(
                source,
                f"{change.price!r} is no price: write dollars an hour such as 0.12, or a change such as +10% or -0.05",
            )


def overlays(changes: Sequence[MarketChange], types: Sequence[InstanceType]) -> list[NodeOverlay]:
    """Return the NodeOverlays that make the changes of prices."""
    return [
        NodeOverlay(
            metadata=ObjectMeta(name=f"change-{number}"),
            spec=NodeOverlaySpec(
                requirements=list(_requirements(change, types)),
                price=change.price if change.price[0].isdigit() else None,
                price_adjustment=None if change.price[0].isdigit() else change.price,
                weight=_LEAST_WEIGHT + number,
            ),
        )
        for number, change in enumerate(changes, 1)
        if change.price
    ]


def _requirements(change: MarketChange, types: Sequence[InstanceType]) -> Iterator[OverlayRequirement]:
    if change.instance_type != "*":
        names = [kind.name for kind in types if fnmatchcase(kind.name, change.instance_type)]
        yield OverlayRequirement(key=labels.INSTANCE_TYPE, operator="In", values=names)
    for key, value in ((labels.CAPACITY_TYPE, change.capacity_type), (labels.ZONE, change.zone)):
        if value:
            yield OverlayRequirement(key=key, operator="In", values=[value])


def unavailable(
    changes: Iterable[MarketChange], types: Iterable[InstanceType], now: datetime
) -> dict[OfferingKey, datetime]:
    """Return what EC2 refuses with the changes, with the time until which plans avoid it, as if it were new."""
    refusing = [change for change in changes if change.is_unavailable]
    if not refusing:
        return {}
    return {
        OfferingKey.refusable(offering.capacity_type, kind.name, offering.zone, offering.reservation_id): (
            now + UNAVAILABLE_OFFERINGS_TTL
        )
        for kind in types
        for offering in kind.offerings
        if any(change.has(kind.name, offering) for change in refusing)
    }
