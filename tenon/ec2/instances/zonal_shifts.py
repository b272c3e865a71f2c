"""What a zonal shift of ARC means for launches."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tenon.scheduling.model import InstanceType


def shifted_zones(resource: Mapping[str, Any]) -> frozenset[str]:
    """Return the IDs of the zones that GetManagedResource says traffic is moved away from.

    A shift that was started by hand takes precedence over an autoshift, and ARC marks the other one as not applied.
    """
    shifts = [*(resource.get("zonalShifts") or ()), *(resource.get("autoshifts") or ())]
    return frozenset(str(shift["awayFrom"]) for shift in shifts if shift.get("appliedStatus") == "APPLIED")


def without_zones(instance_types: Sequence[InstanceType], away: Collection[str]) -> list[InstanceType]:
    """Mark the offerings in these zones, by ID or name, as unavailable. Types without such stay the same objects."""
    return [_without_zones(instance_type, away) for instance_type in instance_types]


def _without_zones(instance_type: InstanceType, away: Collection[str]) -> InstanceType:
    is_away = [
        offering.available and (offering.zone_id in away or offering.zone in away)
        for offering in instance_type.offerings
    ]
    if not any(is_away):
        return instance_type
    marked = (
        replace(offering, available=False) if out else offering
        for offering, out in zip(instance_type.offerings, is_away, strict=True)
    )
    return replace(instance_type, offerings=tuple(marked))
