"""Capacity reservations: on-demand reservations, capacity blocks and interruptible reservations, and who is in them.

An instance takes a place in a reservation that its launch names, or in an open one that matches, unless its launch says
none. When a reservation ends, the instances of a capacity block are terminated, and all others become on-demand.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from moto.ec2.exceptions import EC2ClientError

from sandbox.ec2.authorization.identities import ACCOUNT
from sandbox.ec2.describe import pattern
from sandbox.ec2.instances import InstanceBook, Machine
from sandbox.ec2.launch import LaunchRefusedError
from sandbox.ec2.region import PARTITION
from sandbox.ec2.templates import LaunchSpec

ENDED = ("terminated", "shutting-down")
BLOCK_ENDED = ("Server.ScheduledStop", "Server.ScheduledStop: the capacity block ended")
DEFAULT, BLOCK = "default", "capacity-block"


@dataclass
class Reservation:
    """One capacity reservation."""

    id: str
    instance_type: str
    zone: str
    total: int
    criteria: str = "targeted"
    type: str = DEFAULT
    interruptible: bool = False
    owner: str = ACCOUNT
    end: datetime | None = None
    state: str = "active"
    tags: dict[str, str] = field(default_factory=dict)
    created: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def lifecycle(self) -> str:
        """InstanceLifecycle of the instances in it. Empty for on-demand reservations."""
        if self.type == BLOCK:
            return BLOCK
        return "interruptible-capacity-reservation" if self.interruptible else ""

    @property
    def target(self) -> str:
        """The target capacity type of a fleet that launches into it."""
        if self.type == BLOCK:
            return BLOCK
        return "reserved-capacity" if self.interruptible else "on-demand"


class CapacityReservations:
    """The capacity reservations that the account can use."""

    def __init__(self, book: InstanceBook) -> None:
        self._book = book
        self._numbers = itertools.count(1)
        self._all: dict[str, Reservation] = {}

    def create(self, **fields: Any) -> Reservation:
        """Create a reservation, which is active at once."""
        reservation = Reservation(id=f"cr-{next(self._numbers):017x}", **fields)
        self._all[reservation.id] = reservation
        return reservation

    def end(self, reservation_id: str, state: str = "cancelled") -> None:
        """End a reservation.

        Raises:
            ValueError: it does not exist.
        """
        result = self._all.get(reservation_id)
        if result is None:
            raise ValueError(f"there is no capacity reservation {reservation_id}")
        for machine in self._users(result):
            if result.type == BLOCK:
                self._book.lose(machine.id, *BLOCK_ENDED)
            else:
                machine.capacity_reservation_id = ""
                machine.fixed.clear()
        result.state = state

    def schedule_end(self, reservation_id: str, at: datetime) -> None:
        """Set the time at which a reservation ends.

        Raises:
            ValueError: it does not exist.
        """
        if reservation_id not in self._all:
            raise ValueError(f"there is no capacity reservation {reservation_id}")
        self._all[reservation_id].end = at

    def clear(self) -> None:
        """Forget all, for a reset."""
        self._all.clear()

    def lifecycle(self, reservation_id: str) -> str:
        """InstanceLifecycle of the instances in a reservation."""
        result = self._all.get(reservation_id)
        return result.lifecycle if result is not None else ""

    def advance(self) -> None:
        """End the reservations whose time has come."""
        now = datetime.fromtimestamp(self._book.clock(), UTC)
        for item in list(self._all.values()):
            if item.state == "active" and item.end is not None and item.end <= now:
                self.end(item.id, "expired")

    def chosen(self, spec: LaunchSpec, zone: str, target: str) -> Reservation | LaunchRefusedError | None:
        """The reservation of a launch, EC2's error, or None for a launch outside of all reservations."""
        reservation_spec = spec.data.get("CapacityReservationSpecification") or {}
        reservation_target = spec.reservation_target
        preference = reservation_spec.get("CapacityReservationPreference") or ("" if reservation_target else "open")
        market = (spec.data.get("InstanceMarketOptions") or {}).get("MarketType") or ""
        if reservation_target:
            return self._named(reservation_target, spec.instance_type, zone, target, market)
        if target in (BLOCK, "reserved-capacity"):
            return LaunchRefusedError(
                "InvalidParameterCombination", f"A target capacity type of {target} needs a capacity reservation."
            )
        if preference == "none" or target == "spot":
            return None
        for item in self._all.values():
            matches = (item.instance_type, item.zone) == (spec.instance_type, zone) and item.criteria == "open"
            if matches and item.state == "active" and item.target == target and self.left(item) > 0:
                return item
        return full() if preference == "capacity-reservations-only" else None

    def _named(
        self, name: str, instance_type: str, zone: str, target: str, market: str
    ) -> Reservation | LaunchRefusedError:
        result = self._all.get(name)
        if result is None or result.state != "active":
            return LaunchRefusedError(
                "InvalidCapacityReservationId.NotFound", f"The capacity reservation ID '{name}' does not exist"
            )
        if (result.instance_type, result.zone) != (instance_type, zone):
            return LaunchRefusedError(
                "InvalidParameterValue",
                f"The attributes of {name} ({result.instance_type} in {result.zone}) do not match the instance "
                f"({instance_type} in {zone}).",
            )
        if target != result.target or market != result.lifecycle:
            return LaunchRefusedError(
                "InvalidParameterCombination",
                f"{name} takes launches with target capacity type {result.target} and market type "
                f"'{result.lifecycle}', not {target} and '{market}'.",
            )
        return result if self.left(result) > 0 else full()

    def left(self, reservation: Reservation) -> int:
        """How many more instances fit in a reservation."""
        return max(0, reservation.total - len(self._users(reservation)))

    def describe(self, ids: Iterable[str], filters: Mapping[str, Iterable[str]]) -> list[dict[str, Any]]:
        """The reservations of a DescribeCapacityReservations call.

        Raises:
            EC2ClientError: an ID does not exist, or EC2 does not have the filter.
        """
        self.advance()
        expectation = list(ids)
        for missing in (item for item in expectation if item not in self._all):
            raise EC2ClientError(
                "InvalidCapacityReservationId.NotFound", f"The capacity reservation ID '{missing}' does not exist"
            )
        result = [item for item in self._all.values() if not expectation or item.id in expectation]
        for name, values in filters.items():
            patterns = [pattern(str(value)) for value in values]
            result = [item for item in result if any(p.fullmatch(v) for p in patterns for v in _values(item, name))]
        return [self._description(item) for item in result]

    def _description(self, reservation: Reservation) -> dict[str, Any]:
        place = f"{reservation.zone[:-1]}:{reservation.owner}"
        answer = {
            "CapacityReservationId": reservation.id,
            "OwnerId": reservation.owner,
            "CapacityReservationArn": f"arn:{PARTITION}:ec2:{place}:capacity-reservation/{reservation.id}",
            "InstanceType": reservation.instance_type,
            "InstancePlatform": "Linux/UNIX",
            "AvailabilityZone": reservation.zone,
            "Tenancy": "default",
            "TotalInstanceCount": reservation.total,
            "AvailableInstanceCount": self.left(reservation) if reservation.state == "active" else 0,
            "State": reservation.state,
            "StartDate": reservation.created,
            "CreateDate": reservation.created,
            "EndDateType": "limited" if reservation.end else "unlimited",
            "InstanceMatchCriteria": reservation.criteria,
            "ReservationType": reservation.type,
            "Interruptible": reservation.interruptible,
            "Tags": [{"Key": key, "Value": value} for key, value in reservation.tags.items()],
        }
        return answer | ({"EndDate": reservation.end} if reservation.end else {})

    def _users(self, reservation: Reservation) -> list[Machine]:
        return [
            machine
            for machine in self._book.all()
            if machine.capacity_reservation_id == reservation.id and machine.state not in ENDED
        ]


def full(reservation: Reservation | None = None) -> LaunchRefusedError:
    """EC2's error for a launch into reservations without a free place."""
    subject = reservation.id if reservation is not None else "The requested reservation"
    return LaunchRefusedError(
        "ReservationCapacityExceeded",
        f"{subject} does not have sufficient compatible and available capacity for this request.",
    )


def _values(reservation: Reservation, name: str) -> list[str]:
    if name.startswith("tag:"):
        return [reservation.tags[name[4:]]] if name[4:] in reservation.tags else []
    readers = {
        "capacity-reservation-id": [reservation.id],
        "owner-id": [reservation.owner],
        "state": [reservation.state],
        "instance-match-criteria": [reservation.criteria],
        "instance-type": [reservation.instance_type],
        "availability-zone": [reservation.zone],
        "tag-key": list(reservation.tags),
    }
    if name not in readers:
        raise EC2ClientError("InvalidParameterValue", f"The filter '{name}' is invalid")
    return readers[name]
