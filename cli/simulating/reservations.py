"""Reads what the capacity reservations of a live cluster's EC2NodeClasses have left, as the worker does."""

from __future__ import annotations

from collections.abc import Iterable

from activities.ec2.capacity_reservations import CapacityReservations
from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.ec2.types.capacity_reservations import Places, region_of


def read_places(node_classes: Iterable[EC2NodeClass], notes: list[str]) -> dict[str, Places]:
    """Ask EC2 for the free places of all reservations in the classes' status. Without any it is not asked.

    The region is that of the reservations, because the shell's may be another one. If EC2 refuses or does not answer,
    no place counts as free, as for a worker that never got an answer, and a note says why.
    """
    regions: dict[str, set[str]] = {}
    for node_class in node_classes:
        for reservation in node_class.status.capacity_reservations:
            regions.setdefault(region_of(reservation.availability_zone), set()).add(reservation.id)
    places: dict[str, Places] = {}
    for region, ids in sorted(regions.items()):
        try:
            places |= CapacityReservations(Ec2(region)).count(ids)
        except EC2Error as error:
            notes.append(
                f"the free places of capacity reservations are not known, and the plan uses none: {error.explained}"
            )
    return places
