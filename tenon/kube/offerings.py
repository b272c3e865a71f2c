"""The key of an offering: the label values that identify one way to buy an instance type."""

from __future__ import annotations

from typing import NamedTuple

_IN_GROUP = ":"
_QUOTA = "quota="


class OfferingKey(NamedTuple):
    """One way to buy an instance type. Its field order is the sort order of offerings.

    A key without instance type and zone means all offerings of its capacity type. One without zone means the instance
    type in every zone, and `of_quota` all instance types that share a quota. Messages carry the same fields by
    name (`tenon.lifecycle.messages.launch.OfferingRef`), because a tuple would become a JSON list. What EC2 refuses of
    a capacity reservation is about this reservation alone, so `refusable` names it in place of its instance type. In
    the same way, what EC2 refuses in a placement group is about this group alone, so the group precedes the type.
    """

    capacity_type: str
    instance_type: str
    zone: str

    @classmethod
    def refusable(
        cls, capacity_type: str, instance_type: str, zone: str, reservation_id: str = "", placement_group: str = ""
    ) -> OfferingKey:
        """The key by which EC2's refusals are remembered: of a reservation, if the offering is of one.

        Otherwise of the placement group that the launch names, if it names one. An empty ``instance_type`` then means
        all types in the group.
        """
        group = f"{placement_group}{_IN_GROUP}" if placement_group else ""
        return cls(capacity_type, reservation_id or f"{group}{instance_type}", zone)

    @classmethod
    def of_quota(cls, capacity_type: str, quota: str) -> OfferingKey:
        """The key for all instance types that count against this quota of the account."""
        return cls(capacity_type, f"{_QUOTA}{quota}", "")

    @property
    def quota(self) -> str:
        """The quota if the key is about one; else empty."""
        return self.instance_type.removeprefix(_QUOTA) if self.instance_type.startswith(_QUOTA) else ""

    @property
    def type_in_group(self) -> str | None:
        """The instance type if the key is about a placement group, empty for all types; else None."""
        group, separator, name = self.instance_type.partition(_IN_GROUP)
        return name if group and separator else None

    @property
    def in_all_zones(self) -> OfferingKey:
        """The key for this instance type in every zone."""
        return OfferingKey(self.capacity_type, self.instance_type, "")

    @property
    def whole_capacity_type(self) -> OfferingKey:
        """The key for all offerings of this capacity type."""
        return OfferingKey(self.capacity_type, "", "")
