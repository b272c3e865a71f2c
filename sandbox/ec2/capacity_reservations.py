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
        made = Reservation(id=f"cr-{next(self._numbers):017x}", **fields)
        self._all[made.id] = made
        return made

    def end(self, reservation_id: str, state: str = "cancelled") -> None:
        """End a reservation.

        Raises:
            ValueError: it does not exist.
        """
        found = self._all.get(reservation_id)
        if found is None:
            raise ValueError(f"there is no capacity reservation {reservation_id}")
        for machine in self._users(found):
            if found.type == BLOCK:
                self._book.lose(machine.id, *BLOCK_ENDED)
            else:
                machine.capacity_reservation_id = ""
                machine.fixed.clear()
        found.state = state

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
        found = self._all.get(reservation_id)
        return found.lifecycle if found is not None else ""

    def advance(self) -> None:
        """End the reservations whose time has come."""
        now = datetime.fromtimestamp(self._book.clock(), UTC)
        for one in list(self._all.values()):
            if one.state == "active" and one.end is not None and one.end <= now:
                self.end(one.id, "expired")

    def chosen(self, spec: LaunchSpec, zone: str, target: str) -> Reservation | LaunchRefusedError | None:
        """The reservation of a launch, EC2's error, or None for a launch outside of all reservations."""
        wanted = spec.data.get("CapacityReservationSpecification") or {}
        named = spec.reservation_target
        preference = wanted.get("CapacityReservationPreference") or ("" if named else "open")
        market = (spec.data.get("InstanceMarketOptions") or {}).get("MarketType") or ""
        if named:
            return self._named(named, spec.instance_type, zone, target, market)
        if target in (BLOCK, "reserved-capacity"):
            return LaunchRefusedError(
                "InvalidParameterCombination", f"A target capacity type of {target} needs a capacity reservation."
            )
        if preference == "none" or target == "spot":
            return None
        for one in self._all.values():
            matches = (one.instance_type, one.zone) == (spec.instance_type, zone) and one.criteria == "open"
            if matches and one.state == "active" and one.target == target and self.left(one) > 0:
                return one
        return full() if preference == "capacity-reservations-only" else None

    def _named(
        self, name: str, instance_type: str, zone: str, target: str, market: str
    ) -> Reservation | LaunchRefusedError:
        found = self._all.get(name)
        if found is None or found.state != "active":
            return LaunchRefusedError(
                "InvalidCapacityReservationId.NotFound", f"The capacity reservation ID '{name}' does not exist"
            )
        if (found.instance_type, found.zone) != (instance_type, zone):
            return LaunchRefusedError(
                "InvalidParameterValue",
                f"The attributes of {name} ({found.instance_type} in {found.zone}) do not match the instance "
                f"({instance_type} in {zone}).",
            )
        if target != found.target or market != found.lifecycle:
            return LaunchRefusedError(
                "InvalidParameterCombination",
                f"{name} takes launches with target capacity type {found.target} and market type "
                f"'{found.lifecycle}', not {target} and '{market}'.",
            )
        return found if self.left(found) > 0 else full()

    def left(self, reservation: Reservation) -> int:
        """How many more instances fit in a reservation."""
        return max(0, reservation.total - len(self._users(reservation)))

    def describe(self, ids: Iterable[str], filters: Mapping[str, Iterable[str]]) -> list[dict[str, Any]]:
        """The reservations of a DescribeCapacityReservations call.

        Raises:
            EC2ClientError: an ID does not exist, or EC2 does not have the filter.
        """
        self.advance()
        wanted = list(ids)
        for missing in (one for one in wanted if one not in self._all):
            raise EC2ClientError(
                "InvalidCapacityReservationId.NotFound", f"The capacity reservation ID '{missing}' does not exist"
            )
        found = [one for one in self._all.values() if not wanted or one.id in wanted]
        for name, values in filters.items():
            patterns = [pattern(str(value)) for value in values]
            found = [one for one in found if any(p.fullmatch(v) for p in patterns for v in _values(one, name))]
        return [self._description(one) for one in found]

    def _description(self, one: Reservation) -> dict[str, Any]:
        answer = {
            "CapacityReservationId": one.id,
            "OwnerId": one.owner,
            "CapacityReservationArn": f"arn:{PARTITION}:ec2:{one.zone[:-1]}:{one.owner}:capacity-reservation/{one.id}",
            "InstanceType": one.instance_type,
            "InstancePlatform": "Linux/UNIX",
            "AvailabilityZone": one.zone,
            "Tenancy": "default",
            "TotalInstanceCount": one.total,
            "AvailableInstanceCount": self.left(one) if one.state == "active" else 0,
            "State": one.state,
            "StartDate": one.created,
            "CreateDate": one.created,
            "EndDateType": "limited" if one.end else "unlimited",
            "InstanceMatchCriteria": one.criteria,
            "ReservationType": one.type,
            "Interruptible": one.interruptible,
            "Tags": [{"Key": key, "Value": value} for key, value in one.tags.items()],
        }
        return answer | ({"EndDate": one.end} if one.end else {})

    def _users(self, one: Reservation) -> list[Machine]:
        return [
            machine
            for machine in self._book.all()
            if machine.capacity_reservation_id == one.id and machine.state not in ENDED
        ]


def full(reservation: Reservation | None = None) -> LaunchRefusedError:
    """EC2's error for a launch into reservations without a free place."""
    what = reservation.id if reservation is not None else "The requested reservation"
    return LaunchRefusedError(
        "ReservationCapacityExceeded",
        f"{what} does not have sufficient compatible and available capacity for this request.",
    )


def _values(one: Reservation, name: str) -> list[str]:
    if name.startswith("tag:"):
        return [one.tags[name[4:]]] if name[4:] in one.tags else []
    readers = {
        "capacity-reservation-id": [one.id],
        "owner-id": [one.owner],
        "state": [one.state],
        "instance-match-criteria": [one.criteria],
        "instance-type": [one.instance_type],
        "availability-zone": [one.zone],
        "tag-key": list(one.tags),
    }
    if name not in readers:
        raise EC2ClientError("InvalidParameterValue", f"The filter '{name}' is invalid")
    return readers[name]
