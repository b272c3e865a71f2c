"""GetSpotPlacementScores, which the mock does not have: how likely EC2 is to have spot capacity in each zone.

A zone scores higher the more of the types have spot capacity there, unless a test states its score. How AWS computes
scores, and how many new configurations it allows in a day, is not documented.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from moto.ec2.exceptions import EC2ClientError

from sandbox.ec2.market import Market

UNITS = ("vcpu", "memory-mib", "units")
LOWEST = 1
USUAL = 9
"""The score of a zone that has capacity of all types."""
FEW_TYPES = 3
"""AWS always gives fewer types a low score."""
BEST = 10
"""How many zones an answer has at most."""
MOST_TYPES = 1000
MOST_REGIONS = 10
MOST_CAPACITY = 2_000_000_000
MOST_CONFIGURATIONS = 50
"""New configurations in 24 hours: made up."""
DAY = 24 * 3600.0


@dataclass(frozen=True)
class Request:
    """A call of GetSpotPlacementScores. None and empty are what it does not state."""

    capacity: int | None
    types: tuple[str, ...] = ()
    requirements: bool = False
    """Whether it has InstanceRequirementsWithMetadata."""
    unit: str = "units"
    by_zone: bool = False
    regions: tuple[str, ...] = ()


class SpotScores:
    """The scores of the account, and which configurations it had scored."""

    def __init__(self, market: Market, now: Callable[[], float]) -> None:
        self._market = market
        self._now = now
        self._scores_by_zone_id: dict[str, int] = {}
        """Those that a test states."""
        self._scored_at: dict[Request, float] = {}

    def clear(self) -> None:
        """Forget all, for a reset."""
        self._scores_by_zone_id.clear()
        self._scored_at.clear()

    def state(self, scores: Mapping[str, int]) -> None:
        """Set the scores of zones, by zone ID, in place of those that were stated before."""
        self._scores_by_zone_id = dict(scores)

    def answer(
        self, request: Request, region: str, zones: Mapping[str, str], offered: Set[tuple[str, str]]
    ) -> list[dict[str, Any]]:
        """The answer, best first.

        Args:
            request: what is asked for.
            region: that of this EC2. It knows no other one's capacity.
            zones: the availability zones of the region, each with its ID.
            offered: each instance type with each zone that has it.

        Raises:
            EC2ClientError: EC2 would not accept the request.
        """
        _check(request)
        self._count(request)
        if request.regions and region not in request.regions:
            return []
        scores = {zones[zone]: self._score(request.types, zone, zones[zone], offered) for zone in zones}
        if not request.by_zone:
            return [{"Region": region, "Score": max(scores.values(), default=LOWEST)}]
        ranked = sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:BEST]
        return [{"Region": region, "AvailabilityZoneId": zone_id, "Score": score} for zone_id, score in ranked]

    def _count(self, request: Request) -> None:
        now = self._now()
        self._scored_at = {key: at for key, at in self._scored_at.items() if now < at + DAY}
        if request not in self._scored_at and len(self._scored_at) >= MOST_CONFIGURATIONS:
            raise EC2ClientError(
                "MaxConfigLimitExceeded",
                "You have exceeded your maximum allowed Spot placement configurations. You can retry configurations "
                "that you used within the last 24 hours, or wait for 24 hours before specifying a new configuration.",
            )
        self._scored_at.setdefault(request, now)

    def _score(self, types: Sequence[str], zone: str, zone_id: str, offered: Set[tuple[str, str]]) -> int:
        if len(types) < FEW_TYPES:
            return LOWEST
        if zone_id in self._scores_by_zone_id:
            return self._scores_by_zone_id[zone_id]
        available = [kind for kind in types if (kind, zone) in offered and self._market.left((kind, zone, "spot")) != 0]
        return max(LOWEST, USUAL * len(available) // len(types))


def _check(request: Request) -> None:
    if request.capacity is None:
        raise EC2ClientError("MissingParameter", "The request must contain the parameter TargetCapacity")
    if not 1 <= request.capacity <= MOST_CAPACITY:
        raise _invalid(f"({request.capacity}) for parameter TargetCapacity is invalid")
    if request.unit not in UNITS:
        raise _invalid(f"({request.unit}) for parameter TargetCapacityUnitType is invalid")
    if request.types and request.requirements:
        raise EC2ClientError(
            "InvalidParameterCombination",
            "The parameters InstanceTypes and InstanceRequirementsWithMetadata cannot be used together",
        )
    if request.requirements:
        raise EC2ClientError("UnsupportedOperation", "The sandbox scores lists of instance types only")
    if not request.types:
        raise EC2ClientError(
            "MissingParameter",
            "The request must contain the parameter InstanceTypes or InstanceRequirementsWithMetadata",
        )
    if len(request.types) > MOST_TYPES:
        raise _invalid(f"for parameter InstanceTypes is invalid: more than {MOST_TYPES} items")
    if len(request.regions) > MOST_REGIONS:
        raise _invalid(f"for parameter RegionNames is invalid: more than {MOST_REGIONS} items")


def _invalid(clause: str) -> EC2ClientError:
    return EC2ClientError("InvalidParameterValue", f"Value {clause}")
