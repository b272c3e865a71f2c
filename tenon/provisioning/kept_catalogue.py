"""A list of instance types as a document, which many plans share, and what of it each plan has of its own.

What changes often is not in the document: which offerings EC2 refuses, and how many places reservations have left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from tenon.kube.requirements import Requirements
from tenon.provisioning.input_documents import VERSION
from tenon.resources import Resources
from tenon.scheduling.model import InstanceType, Offering


class KeptOffering(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An offering, without what is in `Change`."""

    zone: str
    capacity_type: str
    price: float
    zone_id: str
    reservation_id: str
    reservation_type: str
    reservation_interruptible: str


class KeptType(msgspec.Struct, frozen=True, omit_defaults=True):
    """An instance type."""

    name: str
    requirements: Requirements
    capacity: Resources
    overhead: Resources
    offerings: list[KeptOffering]
    has_image: bool = True


class KeptCatalogue(msgspec.Struct, frozen=True):
    """The types of a list, without what changes often."""

    version: int
    types: list[KeptType]


class Change(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """How an offering differs from its catalogue, by the index of its type and its own."""

    type_index: int
    offering_index: int
    available: bool
    reservation_capacity: int
    counted_at: float


def catalogue_of(types: Sequence[InstanceType]) -> KeptCatalogue:
    """Return the document of a list of types."""
    return KeptCatalogue(VERSION, [_type(kind) for kind in types])


def changes_of(types: Sequence[InstanceType]) -> list[Change]:
    """Return what the document of the list does not have."""
    return [
        Change(number, place, offering.available, offering.reservation_capacity, offering.counted_at)
        for number, kind in enumerate(types)
        for place, offering in enumerate(kind.offerings)
        if not offering.available or offering.reservation_capacity or offering.counted_at
    ]


def types_in(catalogue: KeptCatalogue, changes: Iterable[Change]) -> list[InstanceType]:
    """Return the list of types again."""
    changed = {(change.type_index, change.offering_index): change for change in changes}
    types = []
    for number, kind in enumerate(catalogue.types):
        offerings = []
        for place, packed in enumerate(kind.offerings):
            change = changed.get((number, place))
            offerings.append(
                Offering(
                    packed.zone,
                    packed.capacity_type,
                    packed.price,
                    available=change.available if change else True,
                    zone_id=packed.zone_id,
                    reservation_id=packed.reservation_id,
                    reservation_capacity=change.reservation_capacity if change else 0,
                    reservation_type=packed.reservation_type,
                    reservation_interruptible=packed.reservation_interruptible,
                    counted_at=change.counted_at if change else 0.0,
                )
            )
        parts = kind.requirements, kind.capacity, kind.overhead, tuple(offerings)
        types.append(InstanceType(kind.name, *parts, has_image=kind.has_image))
    return types


def _type(kind: InstanceType) -> KeptType:
    offerings = [
        KeptOffering(
            offering.zone,
            offering.capacity_type,
            offering.price,
            offering.zone_id,
            offering.reservation_id,
            offering.reservation_type,
            offering.reservation_interruptible,
        )
        for offering in kind.offerings
    ]
    return KeptType(kind.name, kind.requirements, kind.capacity, kind.overhead, offerings, kind.has_image)
