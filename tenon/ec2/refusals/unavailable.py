"""Offerings that EC2 refused recently: for planning and launching to avoid, and in the form that messages carry."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from tenon.apis import labels
from tenon.ec2.refusals.backoff import FIRST_PAUSE, Backoff, in_whole_seconds
from tenon.ec2.refusals.vcpu_quotas import quota_of
from tenon.kube.offerings import EVERY_ZONE, FULL_RESERVATION, QUOTA, OfferingKey
from tenon.kube.timestamps import next_attempt
from tenon.sentences import counted, first_few, listed

if TYPE_CHECKING:  # a plan from files has nothing refused, and loads no messages
    from tenon.messages.provisioning import UnavailableTypes

UNAVAILABLE_OFFERINGS_TTL = FIRST_PAUSE
"""How long plans avoid an offering after EC2 refused it once, or took an instance of it back (AWS-033)."""
FULL_RESERVATION_TTL = timedelta(minutes=1)
"""How long a reservation counts as full that EC2 said is full. By then its places were counted again (N15-405)."""
NAMED_OFFERINGS = 3
"""How many instance types with refused offerings a sentence names."""
MANY_ZONES = 3
"""From how many zones of an instance type a sentence says their number, not their names."""
MAX_REPORTED = 3000
"""How many offerings a message carries at most. Those that are unavailable the longest are kept."""
MAX_GROUPS = 1000
"""How many groups of offerings a message carries at most, each of about 170 bytes."""


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


def refused_now(offering: OfferingKey, now: datetime) -> Backoff:
    """Return the back-off of an offering that EC2 refused, if nothing is known of it.

    A reservation that is full is counted again soon, so its back-off never grows.
    """
    if offering.scope == FULL_RESERVATION:
        return Backoff(now + FULL_RESERVATION_TTL)
    return Backoff(now + UNAVAILABLE_OFFERINGS_TTL, now, 1)


def next_attempt_of(next_attempts: Mapping[OfferingKey, datetime], offering: OfferingKey) -> datetime | None:
    """Return when Tenon asks EC2 for an offering again that EC2 refused, alone or with others; None if it did not."""
    return max((next_attempts[key] for key in refusals_of(next_attempts, offering)), default=None)


def refusals_of(refused: Container[OfferingKey], offering: OfferingKey) -> list[OfferingKey]:
    """Return the refusals that make an offering unavailable: of itself, its type, its quota or its capacity type."""
    keys = [offering, offering.in_all_zones, offering.whole_capacity_type]
    if quota := quota_of(offering.instance_type, offering.capacity_type):
        keys.append(OfferingKey.of_quota(offering.capacity_type, quota))
    return [key for key in dict.fromkeys(keys) if key in refused]


def concerns_types(key: OfferingKey, instance_types: Collection[str]) -> bool:
    """True if a refusal with this key rules out an offering of one of the types, in its capacity type."""
    if key.scope == QUOTA:
        return any(quota_of(name, key.capacity_type) == key.scope_name for name in instance_types)
    return key == key.whole_capacity_type or key.instance_type in instance_types


def grouped(backoffs: Mapping[OfferingKey, Backoff]) -> list[UnavailableTypes]:
    """Group offerings by zone for messages. Listing them one by one would make messages five times as long.

    Instants are whole seconds, or calls that were under way together would each have a group.
    """
    from tenon.messages.provisioning import UnavailableTypes

    newest = sorted(backoffs.items(), key=lambda item: (item[1].until, item[0]), reverse=True)[:MAX_REPORTED]
    groups: dict[tuple[OfferingKey, Backoff], list[str]] = {}
    for key, backoff in newest:
        group = key._replace(instance_type=""), in_whole_seconds(backoff)
        if group in groups or len(groups) < MAX_GROUPS:
            groups.setdefault(group, []).append(key.instance_type)
    return [
        UnavailableTypes(
            capacity_type=key.capacity_type,
            zone=key.zone,
            scope=key.scope,
            scope_name=key.scope_name,
            instance_types=sorted(names),
            until=backoff.until,
            refused_at=backoff.refused_at,
            refusals=backoff.refusals,
        )
        for (key, backoff), names in sorted(groups.items(), key=lambda item: (item[0][0], item[0][1].until, item[1]))
    ]


def backoffs_of(groups: Iterable[UnavailableTypes]) -> dict[OfferingKey, Backoff]:
    """Return the back-off of each offering of a message, also of those that plans use again."""
    backoffs: dict[OfferingKey, Backoff] = {}
    for group in groups:
        for name in group.instance_types:
            key = OfferingKey(group.capacity_type, name, group.zone, group.scope, group.scope_name)
            reported = Backoff(group.until, group.refused_at, group.refusals)
            backoffs[key] = max(reported, backoffs.get(key, reported), key=lambda backoff: backoff.until)
    return backoffs


def reason_of(key: OfferingKey) -> str:
    """Return why plans avoid what the key is about, as a metric says it."""
    if key.scope == QUOTA:
        return "SpotQuotaExceeded" if key.capacity_type == labels.SPOT else "VCPULimitExceeded"
    if key == key.whole_capacity_type:
        return "SpotSLRCreationFailed"
    return "ReservationFull" if key.scope == FULL_RESERVATION else "InsufficientCapacity"


@dataclass(frozen=True, slots=True)
class Shortage:
    """What EC2 refuses now of one capacity type or vCPU quota."""

    subject: str
    """What EC2 refuses, such as '3 spot offerings', without their names."""
    names: str
    """The first of the offerings and how many others there are; empty if it is not about offerings."""
    next_attempt: datetime | None
    """When Tenon asks EC2 for the first of these again; None for an attempt that is due and waits for pods."""
    backoffs: Mapping[OfferingKey, Backoff]
    """All refused offerings, with how long each is left alone."""

    @property
    def text(self) -> str:
        """What EC2 refuses. It names the first offerings only, and says how many others there are."""
        return f"{self.subject}{f' ({self.names})' if self.names else ''}{_in_a_row(self.backoffs.values())}"

    @property
    def sentence(self) -> str:
        """The text with the time of the next attempt."""
        return f"{self.text}: {self._next_attempt}"

    @property
    def title(self) -> str:
        """The sentence without names, for a list of `zones` below it."""
        return f"{self.subject}{_in_a_row(self.backoffs.values())}: {self._next_attempt}"

    @property
    def zones(self) -> list[str]:
        """What EC2 refuses in each zone, if there is more than a sentence names: the first types and their number.

        Zones in which it refuses the same are one item.
        """
        by_zone: dict[str, list[str]] = {}
        for key in self.backoffs:
            where = key.zone or EVERY_ZONE
            by_zone.setdefault(where, []).append(str(key).removesuffix(f" in {where}"))
        if len({name for names in by_zone.values() for name in names}) <= NAMED_OFFERINGS:
            return []
        zones_of: dict[tuple[str, ...], list[str]] = {}
        for zone in sorted(by_zone):
            zones_of.setdefault(tuple(by_zone[zone]), []).append(zone)
        return [f"in {listed(zones)}: {first_few(names, NAMED_OFFERINGS)}" for names, zones in zones_of.items()]

    @property
    def _next_attempt(self) -> str:
        at = self.next_attempt
        return next_attempt(at) if at is not None else "the next attempt is due, with the next NodeClaim that needs one"


def shortages(groups: Iterable[UnavailableTypes], now: datetime) -> list[Shortage]:
    """Return what EC2 refuses now: capacity types, vCPU quotas that are used up, and offerings.

    Args:
        groups: all of it, as messages carry it.
        now: the current time.
    """
    return _shortages(_active(groups, now), now)


def shortages_of(next_attempts: Mapping[OfferingKey, datetime]) -> list[Shortage]:
    """Return what EC2 refuses. ``next_attempts``: all of it, with the time when Tenon asks EC2 for each again."""
    return _shortages({key: Backoff(at) for key, at in next_attempts.items()}, None)


def _shortages(backoffs: Mapping[OfferingKey, Backoff], now: datetime | None) -> list[Shortage]:
    all_shortages: list[Shortage] = []
    offerings: dict[str, list[OfferingKey]] = {}

    def add(subject: str, keys: Sequence[OfferingKey], names: str = "") -> None:
        own = {key: backoffs[key] for key in keys}
        first = min(backoff.probe_at for backoff in own.values())
        later = first if now is None or now < first else None
        all_shortages.append(Shortage(subject, names, later, own))

    for key in sorted(backoffs):
        if key.scope == QUOTA:
            add(f"the account's {key.capacity_type} vCPU quota {key.scope_name} is used up", [key])
        elif key == key.whole_capacity_type:
            add(f"EC2 refuses all {key.capacity_type} capacity", [key])
        else:
            offerings.setdefault(key.capacity_type, []).append(key)
    for capacity_type, keys in offerings.items():
        refused = counted(len(keys), f"{capacity_type} offering")
        add(f"EC2 refuses {refused}", keys, _named(keys))
    return all_shortages


def _named(keys: Sequence[OfferingKey]) -> str:
    """Name the first of these offerings, all zones of an instance type at once, and say how many others there are."""
    by_type: dict[OfferingKey, list[OfferingKey]] = {}
    for key in keys:
        by_type.setdefault(key.in_all_zones, []).append(key)
    shown = list(by_type.values())[:NAMED_OFFERINGS]
    more = len(keys) - sum(map(len, shown))
    return ", ".join(map(_in_zones, shown)) + (f" and {more} more" if more else "")


def _in_zones(keys: Sequence[OfferingKey]) -> str:
    """Name one instance type, or one reservation or placement group, in its zones."""
    if len(keys) < MANY_ZONES:
        return str(keys[0]) + "".join(f" and {key.zone or EVERY_ZONE}" for key in keys[1:])
    return f"{str(keys[0]).removesuffix(keys[0].zone or EVERY_ZONE)}{len(keys)} zones"


def _in_a_row(backoffs: Collection[Backoff]) -> str:
    """How often EC2 refused these offerings, if that was not the first time."""
    most = max(backoff.refusals for backoff in backoffs)
    return f", {'up to ' if len(backoffs) > 1 else ''}{most} times in a row so far" if most > 1 else ""


def by_offering(groups: Iterable[UnavailableTypes], now: datetime) -> dict[OfferingKey, datetime]:
    """Return when Tenon asks EC2 again for each offering that plans avoid. Expired entries are left out."""
    return {key: max(now, backoff.probe_at) for key, backoff in _active(groups, now).items()}


def _active(groups: Iterable[UnavailableTypes], now: datetime) -> dict[OfferingKey, Backoff]:
    return {key: backoff for key, backoff in backoffs_of(groups).items() if backoff.is_active(now)}
