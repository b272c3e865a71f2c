"""What EC2 charges for an instance, as far as Tenon can know it.

EC2 charges Linux instances by the second, and for 60 seconds at least (Amazon EC2 pricing, "per second billing").
Tenon counts from the launch time that EC2 states to the moment when EC2 accepted the termination. Not known are the
seconds in which an instance is pending, which are free, changes of the spot price after the launch, discounts of the
account (Savings Plans, reserved instances), and what volumes, addresses and traffic cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from types import MappingProxyType

from tenon.kube.stopped_times import runs, stopped_times
from tenon.money import LEAST_CHARGED, instance_charge, nanos, of_time
from tenon.record.entries import Entry, LaunchEntry, RecordedNode, RemovalEntry


@dataclass(frozen=True, slots=True)
class Lifetime:
    """An instance from its launch to its end."""

    instance: str
    claim: str
    node: str
    pool: str
    instance_type: str
    zone: str
    capacity_type: str
    price: int | None
    """Nano-dollars an hour, as of the launch; None if it is not known."""
    launched_at: datetime
    ended_at: datetime | None = None
    """None while it runs."""
    is_stopped: bool = False
    """Its instance is stopped in this time, and ``price`` is that of its disks."""
    stopped: str = ""
    """When its instance was stopped (`tenon.kube.stopped_times`). The lifetimes of a bill are divided by it."""

    def cost_until(self, moment: datetime) -> int:
        """Return what EC2 has charged until a moment. A second that has begun counts, and the minimum is due at once.

        So the costs of windows that follow each other add up to the cost of the whole time.
        """
        if moment <= self.launched_at or self.price is None:
            return 0
        end = moment if self.ended_at is None else min(moment, self.ended_at)
        charge = of_time if self.is_stopped else instance_charge
        return charge(self.price, end - self.launched_at)

    def cost(self, since: datetime, until: datetime) -> int:
        """Return what EC2 charges in a window."""
        return self.cost_until(until) - self.cost_until(since)

    def hours(self, since: datetime, until: datetime) -> float:
        """Return for how many hours it ran in a window."""
        start, end = max(since, self.launched_at), until if self.ended_at is None else min(until, self.ended_at)
        return max(timedelta(), end - start) / timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Bill:
    """The instances of a window."""

    lifetimes: list[Lifetime]
    """Those of an instance that was stopped for a time are several, which follow each other."""
    endless: list[str]
    """Instances whose launch is in the record, that have no removal there, and that the cluster does not have."""


def bill_of(
    entries: Iterable[Entry],
    living: Iterable[Lifetime],
    *,
    is_complete: bool,
    disk_prices: Mapping[str, int] = MappingProxyType({}),
) -> Bill:
    """Return the instances that the record and the cluster know.

    Args:
        entries: from the start of the window to now. Each instance that ended in this time has its removal there.
        living: the instances that the cluster has now.
        is_complete: ``living`` has all that run. If not, an instance without a removal runs.
        disk_prices: by NodePool, nano-dollars an hour of the disks of a node, for the time in which it is stopped.
    """
    launches: dict[str, LaunchEntry] = {}
    lifetimes: dict[str, Lifetime] = {}
    for entry in entries:
        if isinstance(entry, LaunchEntry) and entry.facts.instance:
            launches[entry.facts.instance] = entry
        elif isinstance(entry, RemovalEntry) and entry.facts.instance and entry.launched_at is not None:
            ended_at = entry.terminated_at or entry.at
            lifetimes[entry.facts.instance] = _lifetime(entry.facts, entry.launched_at, ended_at, entry.stopped)
    ends = _ends(launches, lifetimes)
    running = {lifetime.instance: lifetime for lifetime in living if lifetime.instance not in lifetimes}
    endless: list[str] = []
    for instance, launch in launches.items():
        if instance in lifetimes:
            continue
        launched_at, end = launch.launched_at or launch.at, ends.get(instance)
        stopped = ""
        if end is None and instance in running:
            end, stopped = running[instance].ended_at, running[instance].stopped
        elif end is None and is_complete:
            endless.append(instance)
            end = launched_at + LEAST_CHARGED
        lifetimes[instance] = _lifetime(launch.facts, launched_at, end, stopped)
    for instance, lifetime in running.items():
        lifetimes.setdefault(instance, lifetime)
    parts = [part for lifetime in lifetimes.values() for part in _parts(lifetime, disk_prices.get(lifetime.pool))]
    return Bill(sorted(parts, key=lambda lifetime: (lifetime.launched_at, lifetime.instance)), endless)


def _parts(lifetime: Lifetime, disk_price: int | None) -> Iterator[Lifetime]:
    """Yield the times in which it ran and in which it was stopped."""
    times = stopped_times(lifetime.stopped)
    for start, end in runs(lifetime.launched_at, lifetime.ended_at, times):
        yield replace(lifetime, launched_at=start, ended_at=end)
    for time in times:
        ends = [end for end in (time.until, lifetime.ended_at) if end is not None]
        end = min(ends, default=None)
        if time.since >= lifetime.launched_at and (end is None or time.since < end):
            yield replace(lifetime, launched_at=time.since, ended_at=end, price=disk_price, is_stopped=True)


def _ends(launches: Mapping[str, LaunchEntry], removed: Mapping[str, Lifetime]) -> dict[str, datetime]:
    """By instance that its NodeClaim replaced by another one, when that was launched, or when the claim was removed."""
    moments: dict[str, list[tuple[datetime, str]]] = {}
    for instance, launch in launches.items():
        moments.setdefault(launch.facts.claim, []).append((launch.launched_at or launch.at, instance))
    ends: dict[str, datetime] = {}
    for of_claim in moments.values():
        of_claim.sort()
        for (_, instance), (next_launch, _) in pairwise(of_claim):
            ends[instance] = next_launch
    claims = {lifetime.claim: lifetime.ended_at for lifetime in removed.values()}
    for instance, launch in launches.items():
        ended_at = claims.get(launch.facts.claim)
        if instance not in ends and ended_at is not None:
            ends[instance] = ended_at
    return ends


def _lifetime(facts: RecordedNode, launched_at: datetime, ended_at: datetime | None, stopped: str = "") -> Lifetime:
    return Lifetime(
        instance=facts.instance,
        claim=facts.claim,
        node=facts.node,
        pool=facts.pool,
        instance_type=facts.instance_type,
        zone=facts.zone,
        capacity_type=facts.capacity_type,
        price=nanos(facts.price) if facts.price else None,
        launched_at=launched_at,
        ended_at=ended_at,
        stopped=stopped,
    )
