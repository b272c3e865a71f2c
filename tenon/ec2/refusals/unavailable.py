"""Offerings that EC2 refused recently: for planning and launching to avoid, and in the form that messages carry."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from tenon.ec2.refusals.vcpu_quotas import quota_of
from tenon.kube.offerings import FULL_RESERVATION, QUOTA, OfferingKey
from tenon.kube.timestamps import format_instant
from tenon.messages.provisioning import UnavailableTypes
from tenon.sentences import counted, first_few

UNAVAILABLE_OFFERINGS_TTL = timedelta(minutes=3)
"""How long plans and launches avoid an offering after EC2 had no capacity for it (AWS-033)."""
FULL_RESERVATION_TTL = timedelta(minutes=1)
"""How long a reservation counts as full that EC2 said is full. By then its places were counted again (N15-405)."""
NAMED_OFFERINGS = 3
"""How many refused offerings a sentence names."""
MAX_REPORTED = 3000
"""How many offerings a message carries, about 60 KB. Those that are unavailable the longest are kept."""


class UnavailableOfferings(frozenset[OfferingKey]):
    """Offerings that EC2 refused.

    A key may stand for a type in every zone, for all types that share a vCPU quota, or for a whole capacity type.
    """

    def __contains__(self, offering: object) -> bool:
        if super().__contains__(offering):
            return True
        if not self or not isinstance(offering, OfferingKey):
            return False
        quota = quota_of(offering.instance_type, offering.capacity_type)
        return (
            super().__contains__(offering.whole_capacity_type)
            or super().__contains__(offering.in_all_zones)
            or (quota != "" and super().__contains__(OfferingKey.of_quota(offering.capacity_type, quota)))
        )


def unavailable_for(offering: OfferingKey) -> timedelta:
    """Return how long an offering that EC2 refused is unavailable."""
    return FULL_RESERVATION_TTL if offering.scope == FULL_RESERVATION else UNAVAILABLE_OFFERINGS_TTL


def unavailable_until(until: Mapping[OfferingKey, datetime], offering: OfferingKey) -> datetime | None:
    """Return until when an offering is unavailable, whether EC2 refused it alone or with others; None if it did not."""
    return max((until[key] for key in refusals_of(until, offering)), default=None)


def refusals_of(until: Mapping[OfferingKey, datetime], offering: OfferingKey) -> list[OfferingKey]:
    """Return the refusals that make an offering unavailable: of itself, its type, its quota or its capacity type."""
    keys = [offering, offering.in_all_zones, offering.whole_capacity_type]
    if quota := quota_of(offering.instance_type, offering.capacity_type):
        keys.append(OfferingKey.of_quota(offering.capacity_type, quota))
    return [key for key in dict.fromkeys(keys) if key in until]


def concerns_types(key: OfferingKey, instance_types: Collection[str]) -> bool:
    """True if a refusal with this key rules out an offering of one of the types, in its capacity type."""
    if key.scope == QUOTA:
        return any(quota_of(name, key.capacity_type) == key.scope_name for name in instance_types)
    return key == key.whole_capacity_type or key.instance_type in instance_types


def grouped(until: Mapping[OfferingKey, datetime]) -> list[UnavailableTypes]:
    """Group offerings by zone for messages. Listing them one by one would make messages five times as long."""
    newest = sorted(until.items(), key=lambda item: (item[1], item[0]), reverse=True)[:MAX_REPORTED]
    groups: dict[tuple[OfferingKey, datetime], list[str]] = {}
    for key, instant in newest:
        groups.setdefault((key._replace(instance_type=""), instant), []).append(key.instance_type)
    return [
        UnavailableTypes(
            capacity_type=key.capacity_type,
            zone=key.zone,
            scope=key.scope,
            scope_name=key.scope_name,
            instance_types=sorted(names),
            until=instant,
        )
        for (key, instant), names in sorted(groups.items())
    ]


@dataclass(frozen=True, slots=True)
class Shortage:
    """What EC2 refuses now of one capacity type or vCPU quota."""

    sentence: str
    """It names the first offerings only, and says how many others there are."""
    until: Mapping[OfferingKey, datetime]
    """All refused offerings, with the time when each is tried again."""


def shortages(groups: Iterable[UnavailableTypes], now: datetime) -> list[Shortage]:
    """Return what EC2 refuses now: capacity types, vCPU quotas that are used up, and offerings."""
    return shortages_of(by_offering(groups, now))


def shortages_of(until: Mapping[OfferingKey, datetime], most: int = NAMED_OFFERINGS) -> list[Shortage]:
    """Return what EC2 refuses.

    Args:
        until: all of it, with the time when each is tried again.
        most: how many refused offerings a sentence names.
    """
    all_shortages: list[Shortage] = []
    offerings: dict[str, list[OfferingKey]] = {}
    for key in sorted(until):
        if key.scope == QUOTA:
            quota = f"the account's {key.capacity_type} vCPU quota {key.scope_name}"
            all_shortages.append(Shortage(f"{quota} is used up: {_again(until[key])}", {key: until[key]}))
        elif key == key.whole_capacity_type:
            sentence = f"EC2 refuses all {key.capacity_type} capacity: {_again(until[key])}"
            all_shortages.append(Shortage(sentence, {key: until[key]}))
        else:
            offerings.setdefault(key.capacity_type, []).append(key)
    for capacity_type, keys in offerings.items():
        names = list(map(str, keys))
        last = max(until[key] for key in keys)
        sentence = (
            f"EC2 refuses {counted(len(keys), f'{capacity_type} offering')} ({first_few(names, most)}): {_again(last)}"
        )
        all_shortages.append(Shortage(sentence, {key: until[key] for key in keys}))
    return all_shortages


def _again(until: datetime) -> str:
    return f"tried again after {format_instant(until)}"


def by_offering(groups: Iterable[UnavailableTypes], now: datetime) -> dict[OfferingKey, datetime]:
    """Return until when each offering is unavailable. Expired entries are left out."""
    until_by_offering: dict[OfferingKey, datetime] = {}
    for group in groups:
        if group.until > now:
            for name in group.instance_types:
                key = OfferingKey(group.capacity_type, name, group.zone, group.scope, group.scope_name)
                until_by_offering[key] = max(group.until, until_by_offering.get(key, group.until))
    return until_by_offering
