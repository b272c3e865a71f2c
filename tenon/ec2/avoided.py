"""Offerings that EC2 refused lately, as planning and launching avoid them."""

from __future__ import annotations

from tenon.ec2.instance_types import OfferingId


class Avoided(frozenset[OfferingId]):
    """(capacity type, instance type, zone) of each; one without type and zone stands for its whole capacity type."""

    def __contains__(self, offering: object) -> bool:
        if super().__contains__(offering):
            return True
        return isinstance(offering, tuple) and super().__contains__((offering[0], "", ""))
