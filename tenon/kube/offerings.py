"""The key of an offering: the label values that identify one way to buy an instance type, or all that EC2 refuses at
once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, get_args

from tenon.apis import labels

Scope = Literal["", "reservation", "full-reservation", "placement-group", "quota"]
"""What a refusal is about besides a capacity type, an instance type and a zone; empty for nothing else."""
SCOPES: Final[frozenset[str]] = frozenset(get_args(Scope))
RESERVATION: Final = "reservation"
"""EC2 refuses launches into the reservation, or takes it back."""
FULL_RESERVATION: Final = "full-reservation"
"""The reservation has no place left, and is healthy."""
PLACEMENT_GROUP: Final = "placement-group"
EVERY_ZONE: Final = "every zone"
"""How sentences name the zone of a key that is about all of them."""
QUOTA: Final = "quota"


class OfferingKey(NamedTuple):
    """One way to buy an instance type. Its field order is the sort order of offerings.

    As what EC2 refuses, the key may stand for several offerings: an empty instance type means all, an empty zone every
    zone. With a ``scope``, it is about offerings in one capacity reservation or placement group only, or about all that
    count against one vCPU quota. Messages carry the same fields by name
    (`tenon.messages.offerings.OfferingRef`), because a tuple would become a JSON list.
    """

    capacity_type: str
    instance_type: str
    zone: str
    scope: Scope = ""
    scope_name: str = ""
    """The ID of the reservation or group, or the name of the quota."""

    @classmethod
    def of_labels(cls, values: Mapping[str, str]) -> OfferingKey:
        """The offering that the labels of a NodeClaim or Node name. Its parts are empty before the launch."""
        return cls(
            values.get(labels.CAPACITY_TYPE, ""), values.get(labels.INSTANCE_TYPE, ""), values.get(labels.ZONE, "")
        )

    @classmethod
    def refusable(
        cls, capacity_type: str, instance_type: str, zone: str, reservation_id: str = "", placement_group: str = ""
    ) -> OfferingKey:
        """The key by which EC2's refusals are remembered: of a reservation, if the offering is of one.

        A reservation is for one instance type, which the key therefore leaves out. Otherwise the key is about the
        placement group that the launch names, if it names one.
        """
        if reservation_id:
            return cls(capacity_type, "", zone, RESERVATION, reservation_id)
        if placement_group:
            return cls(capacity_type, instance_type, zone, PLACEMENT_GROUP, placement_group)
        return cls(capacity_type, instance_type, zone)

    @classmethod
    def of_full_reservation(cls, capacity_type: str, zone: str, reservation_id: str) -> OfferingKey:
        """The key for a capacity reservation that EC2 says is full."""
        return cls(capacity_type, "", zone, FULL_RESERVATION, reservation_id)

    @classmethod
    def of_quota(cls, capacity_type: str, quota: str) -> OfferingKey:
        """The key for all instance types that count against this quota of the account."""
        return cls(capacity_type, "", "", QUOTA, quota)

    @property
    def in_all_zones(self) -> OfferingKey:
        """The key for this instance type in every zone."""
        return OfferingKey(self.capacity_type, self.instance_type, "", self.scope, self.scope_name)

    @property
    def whole_capacity_type(self) -> OfferingKey:
        """The key for all offerings of this capacity type."""
        return OfferingKey(self.capacity_type, "", "")

    def __str__(self) -> str:
        """What the key is about, without its capacity type, as sentences name it."""
        where = self.zone or EVERY_ZONE
        if self.scope in (RESERVATION, FULL_RESERVATION):
            return f"capacity reservation {self.scope_name} in {where}"
        if self.scope == PLACEMENT_GROUP:
            return f"{self.instance_type or 'any type'} in placement group {self.scope_name} in {where}"
        return f"{self.instance_type} in {where}"
