"""The key of an offering: the label values that identify one way to buy an instance type."""

from __future__ import annotations

from typing import NamedTuple


class OfferingKey(NamedTuple):
    """One way to buy an instance type. Its field order is the sort order of offerings.

    A key without instance type and zone means all offerings of its capacity type. Messages carry the same fields by
    name (`tenon.lifecycle.messages.launch.OfferingRef`), because a tuple would become a JSON list. What EC2 refuses of
    a capacity reservation is about this reservation alone, so `refusable` names it in place of its instance type.
    """

    capacity_type: str
    instance_type: str
    zone: str

    @classmethod
    def refusable(cls, capacity_type: str, instance_type: str, zone: str, reservation_id: str = "") -> OfferingKey:
        """The key by which EC2's refusals are remembered: of a reservation, if the offering is of one."""
        return cls(capacity_type, reservation_id or instance_type, zone)

    @property
    def whole_capacity_type(self) -> OfferingKey:
        """The key for all offerings of this capacity type."""
        return OfferingKey(self.capacity_type, "", "")
