"""What a capacity reservation of EC2 means: whether it can be used, what a node in it costs, and which places are left.

EC2 reports the free places late, and a NodeClaim takes its place before its instance exists. So the places of
NodeClaims that EC2 may not have counted yet are subtracted from what it reports.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from tenon.apis import labels
from tenon.apis.ec2nodeclass import CapacityReservation, EC2NodeClass
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.requirements import Requirements
from tenon.scheduling.model import InstanceType, Offering

PRICE_SHARE = 1e-7
"""The price of a place as a share of the on-demand price (AWS-079): paid already, but still ordered."""
BLOCK_DRAINED_BEFORE = timedelta(minutes=40)
"""How long before the end of a capacity block its nodes leave (AWS-124). EC2 ends its instances 30 minutes before."""
RESERVATIONS_ONLY = "capacity-reservations-only"
"""EC2's preference of a launch that uses a reservation or fails."""
COUNTED_AFTER = 10.0
"""Seconds until EC2 counts a launch among the used places of a reservation."""


@dataclass(frozen=True, slots=True)
class Places:
    """How many more instances fit in a reservation, and when EC2 counted them, in seconds since 1970."""

    remaining: int
    counted_at: float


NO_PLACES = Places(0, 0.0)
RESERVATION_LABELS = (labels.RESERVATION_ID, labels.RESERVATION_TYPE, labels.RESERVATION_INTERRUPTIBLE)
"""The labels of a node that is in a capacity reservation."""
_REGION = re.compile(r"(?:[a-z]+-)+\d+")
"""The beginning of the name of a zone, such as us-west-2 of us-west-2a and of us-west-2-lax-1a."""


def reservation_of(raw: Mapping[str, Any], now: datetime) -> CapacityReservation | None:
    """Return a reservation as the status of a class lists it; None if no instance can be launched into it.

    Args:
        raw: the reservation as DescribeCapacityReservations shows it.
        now: the time.
    """
    end: datetime | None = raw.get("EndDate")
    if raw.get("State") != "active" or (end is not None and end <= now):
        return None
    block = raw.get("ReservationType") == labels.CAPACITY_BLOCK
    criteria: Literal["open", "targeted"] = "open" if raw.get("InstanceMatchCriteria") == "open" else "targeted"
    reservation = CapacityReservation(
        id=str(raw["CapacityReservationId"]),
        availability_zone=str(raw["AvailabilityZone"]),
        instance_type=str(raw["InstanceType"]),
        instance_match_criteria=criteria,
        owner_id=str(raw["OwnerId"]),
        end_time=end,
        reservation_type="capacity-block" if block else "default",
        interruptible=True if raw.get("Interruptible") else None,
    )
    return reservation.model_copy(update={"state": "expiring"}) if drains(reservation, now) else reservation


def launched_into(raw: Mapping[str, Any]) -> str:
    """The ID of the reservation that an instance was launched into on purpose; empty if there is none.

    An instance of the preference ``open`` may run in an open reservation by chance: EC2 put it there because it
    matches, and it stays an on-demand instance.

    Args:
        raw: the instance as DescribeInstances shows it.
    """
    asked_for = raw.get("CapacityReservationSpecification") or {}
    reservation_id = (asked_for.get("CapacityReservationTarget") or {}).get("CapacityReservationId")
    only = asked_for.get("CapacityReservationPreference") == RESERVATIONS_ONLY
    return str(raw.get("CapacityReservationId") or "") if reservation_id or only else ""


def drains(reservation: CapacityReservation, now: datetime) -> bool:
    """Whether the nodes of a reservation must leave, because EC2 soon ends its instances.

    Only the instances of a capacity block end with it. Those of another reservation become on-demand (AWS-126).
    """
    end = reservation.end_time
    block = reservation.reservation_type == labels.CAPACITY_BLOCK
    return block and end is not None and now >= end - BLOCK_DRAINED_BEFORE


def offerings_by_type(
    reservations: Iterable[CapacityReservation], zone_ids: Mapping[str, str], on_demand: Mapping[str, float]
) -> dict[str, list[Offering]]:
    """Return an offering for each reservation in a zone of the class, by instance type. Its places are not known yet.

    ``zone_ids`` are the zones with a subnet, with their IDs; ``on_demand`` are prices by type.
    """
    offerings: dict[str, list[Offering]] = {}
    for reservation in sorted(reservations, key=lambda reservation: reservation.id):
        if reservation.availability_zone in zone_ids:
            offerings.setdefault(reservation.instance_type, []).append(
                Offering(
                    zone=reservation.availability_zone,
                    capacity_type=labels.RESERVED,
                    price=on_demand.get(reservation.instance_type, 0.0) * PRICE_SHARE,
                    available=reservation.state == "active",
                    zone_id=zone_ids[reservation.availability_zone],
                    reservation_id=reservation.id,
                    reservation_type=reservation.reservation_type,
                    reservation_interruptible=str(bool(reservation.interruptible)).lower(),
                )
            )
    return offerings


def reservation_ids(instance_types: Iterable[InstanceType]) -> frozenset[str]:
    """Return the IDs of all reservations that have an offering."""
    return frozenset(
        offering.reservation_id
        for instance_type in instance_types
        for offering in instance_type.offerings
        if offering.reservation_id
    )


def without_reservations(instance_types: Iterable[InstanceType]) -> list[InstanceType]:
    """Return the types without the offerings of reservations, as without the gate ReservedCapacity."""
    types = []
    for instance_type in instance_types:
        unreserved = tuple(offering for offering in instance_type.offerings if not offering.reservation_id)
        if unreserved:
            types.append(
                instance_type
                if len(unreserved) == len(instance_type.offerings)
                else replace(instance_type, offerings=unreserved)
            )
    return types


def with_places(instance_types: Sequence[InstanceType], places: Mapping[str, Places]) -> list[InstanceType]:
    """Write on each offering of a reservation how many places EC2 reports; none if EC2 does not say."""

    def counted(offering: Offering) -> Offering:
        free_places = places.get(offering.reservation_id, NO_PLACES)
        return replace(offering, reservation_capacity=free_places.remaining, counted_at=free_places.counted_at)

    return _changed(instance_types, counted)


def with_reservations(
    instance_types: Sequence[InstanceType],
    node_class: EC2NodeClass,
    places: Mapping[str, Places],
    claims: Iterable[ClaimRecord],
) -> Sequence[InstanceType]:
    """Return types that were described without this class, with the offerings of the class's reservations.

    A reservation that the types offer already stays as it is.

    Args:
        instance_types: the types.
        node_class: the class, whose status lists its reservations.
        places: what EC2 reports of the reservations.
        claims: the NodeClaims that name a reservation.
    """
    present_ids = reservation_ids(instance_types)
    listed = [
        instance_type
        for instance_type in node_class.status.capacity_reservations
        if instance_type.id not in present_ids
    ]
    if not listed:
        return instance_types
    zone_ids = {subnet.zone: subnet.zone_id or "" for subnet in node_class.status.subnets}
    on_demand = {
        instance_type.name: min(prices)
        for instance_type in instance_types
        if (prices := list(_on_demand(instance_type)))
    }
    reserved = offerings_by_type(listed, zone_ids, on_demand)
    alone = [
        replace(instance_type, offerings=tuple(reserved[instance_type.name]))
        for instance_type in instance_types
        if instance_type.name in reserved
    ]
    counted = {
        instance_type.name: instance_type.offerings
        for instance_type in without_taken(with_places(alone, places), claims)
    }
    return [
        replace(
            instance_type,
            offerings=(*instance_type.offerings, *counted[instance_type.name]),
            requirements=Requirements.of(
                *(
                    requirement
                    for key, requirement in instance_type.requirements.items()
                    if key not in RESERVATION_LABELS
                )
            ),
        )
        if instance_type.name in counted
        else instance_type
        for instance_type in instance_types
    ]


def _on_demand(instance_type: InstanceType) -> Iterable[float]:
    return (offering.price for offering in instance_type.offerings if offering.capacity_type == labels.ON_DEMAND)


def region_of(zone: str) -> str:
    """Return the region of an availability zone, local zone or Wavelength zone; empty if the name is no such zone."""
    match = _REGION.match(zone)
    return match[0] if match else ""


def without_taken(instance_types: Sequence[InstanceType], claims: Iterable[ClaimRecord]) -> list[InstanceType]:
    """Subtract the places of NodeClaims that EC2 may not have counted."""
    holding: dict[str, list[ClaimRecord]] = {}
    for claim in claims:
        if name := claim.labels.get(labels.RESERVATION_ID):
            holding.setdefault(name, []).append(claim)

    def left(offering: Offering) -> Offering:
        since = offering.counted_at - COUNTED_AFTER
        uncounted = sum(_takes_place(claim, since) for claim in holding.get(offering.reservation_id, ()))
        return replace(offering, reservation_capacity=max(0, offering.reservation_capacity - uncounted))

    return _changed(instance_types, left)


def _takes_place(claim: ClaimRecord, since: float) -> bool:
    """Whether the claim has or will have an instance that EC2 did not count at this time."""
    launched = claim.launched_at
    if launched is None:
        return not claim.deleting
    return launched.timestamp() >= since


def _changed(instance_types: Sequence[InstanceType], change: Callable[[Offering], Offering]) -> list[InstanceType]:
    """Types without a reservation stay the same objects, because the scheduling engine remembers what it computed."""
    return [
        replace(
            instance_type,
            offerings=tuple(
                change(offering) if offering.reservation_id else offering for offering in instance_type.offerings
            ),
        )
        if any(offering.reservation_id for offering in instance_type.offerings)
        else instance_type
        for instance_type in instance_types
    ]
