"""The name of an offering: the label values that say which way to buy an instance type is meant."""

from __future__ import annotations

from typing import NamedTuple


class OfferingKey(NamedTuple):
    """One way to buy an instance type, and the order in which offerings are sorted.

    A key without instance type and zone stands for everything of its capacity type. Messages carry the same fields by
    name (`tenon.lifecycle.messages.OfferingRef`), because a tuple would become a JSON list.
    """

    capacity_type: str
    instance_type: str
    zone: str

    @property
    def whole_capacity_type(self) -> OfferingKey:
        """The key that stands for everything of this capacity type."""
        return OfferingKey(self.capacity_type, "", "")
