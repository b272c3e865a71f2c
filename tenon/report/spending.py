"""What the nodes of NodePools cost over time, by the bill of `tenon cost` without the disks of stopped nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from tenon.apis import labels
from tenon.apis.nodeclaim import INSTANCE_TERMINATING
from tenon.cost.attribution import attribute, measurement_of
from tenon.cost.bill import Bill, Lifetime, bill_of
from tenon.cost.split import ConsumerKind
from tenon.money import NANOS, dollars, nanos
from tenon.page.time_axis import Axis
from tenon.record.entries import CostEntry, Entry
from tenon.report.live import LiveNode

_SECONDS_AN_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Spending:
    """The instances of a window, and what they cost."""

    bill: Bill

    @property
    def unpriced(self) -> int:
        """How many instances have no known price, so that they count as free.

        Those that are stopped count as free in all of the report.
        """
        running = (lifetime for lifetime in self.bill.lifetimes if not lifetime.is_stopped)
        return len({lifetime.instance for lifetime in running if lifetime.price is None})

    def cost(self, since: datetime, until: datetime) -> float:
        """Return the dollars of a window."""
        return dollars(sum(lifetime.cost(since, until) for lifetime in self.bill.lifetimes))

    def by_pool(self, since: datetime, until: datetime) -> dict[str, float]:
        """Return the same by NodePool, the most expensive first."""
        amounts: dict[str, int] = {}
        for lifetime in self.bill.lifetimes:
            if amount := lifetime.cost(since, until):
                amounts[lifetime.pool] = amounts.get(lifetime.pool, 0) + amount
        return {name: dollars(amounts[name]) for name in sorted(amounts, key=lambda name: (-amounts[name], name))}

    def by_namespace(self, entries: Iterable[Entry], since: datetime, until: datetime) -> dict[str, float]:
        """Return what pods of each namespace cost, and what else is paid for, as far as the record says it."""
        samples = (entry for entry in entries if isinstance(entry, CostEntry) and entry.since < until)
        measurements = [measurement_of(entry) for entry in samples]
        if not measurements:
            return {}
        amounts: dict[str, int] = {}
        attribution = attribute(self.bill.lifetimes, measurements, since, until)
        for (_, consumer), amount in attribution.amounts.items():
            name = consumer.namespace if consumer.kind is ConsumerKind.PODS else f"({consumer.kind})"
            amounts[name] = amounts.get(name, 0) + amount
        return {name: dollars(amounts[name]) for name in sorted(amounts, key=lambda name: (-amounts[name], name))}

    def an_hour(self, axis: Axis, since: datetime, now: datetime) -> list[float | None]:
        """Return for each bucket the mean of dollars an hour from ``since`` until now; None for other buckets."""
        bounds = [min(max(axis.start_of(number), since), now) for number in range(axis.count + 1)]
        amounts = [0] * axis.count
        for lifetime in self.bill.lifetimes:
            for number in _buckets(axis, lifetime, now):
                amounts[number] += lifetime.cost(bounds[number], bounds[number + 1])
        hours = [(end - start).total_seconds() / _SECONDS_AN_HOUR for start, end in pairwise(bounds)]
        return [amount / NANOS / length if length > 0 else None for amount, length in zip(amounts, hours, strict=True)]


def spending(entries: Iterable[Entry], nodes: Iterable[LiveNode]) -> Spending:
    """Return the instances of a window, from its entries and from the nodes that run now."""
    living = [lifetime for live in nodes if (lifetime := _lifetime(live)) is not None]
    return Spending(bill_of(entries, living, is_complete=True))


def _lifetime(live: LiveNode) -> Lifetime | None:
    claim, row = live.claim, live.row
    launched_at = (claim.launched_at or claim.created_at) if claim is not None else None
    if claim is None or launched_at is None or not claim.instance_id:
        return None
    price = row.price if claim.launch_price is None else claim.launch_price
    return Lifetime(
        instance=claim.instance_id,
        claim=claim.name,
        node=row.node,
        pool=claim.pool,
        instance_type=row.instance_type,
        zone=row.zone,
        capacity_type=row.capacity_type,
        price=None if price is None else nanos(price),
        launched_at=launched_at,
        ended_at=claim.true_since(INSTANCE_TERMINATING),
        stopped=claim.annotations.get(labels.STOPPED_TIMES, ""),
    )


def first_time(entries: Iterable[Entry], lifetimes: Iterable[Lifetime]) -> datetime | None:
    """Return the time from which on all nodes are known: that of the first entry. None if nothing is known.

    Without a record, it is the first launch of a node that runs now. With one, such a node may be older, but others
    that ran then are not known.
    """
    times = [entry.since if isinstance(entry, CostEntry) else entry.at for entry in entries]
    return min(times or (lifetime.launched_at for lifetime in lifetimes), default=None)


def _buckets(axis: Axis, lifetime: Lifetime, now: datetime) -> Sequence[int]:
    """The buckets in which an instance may cost something. A second that has begun may end in the next one."""
    first = int((lifetime.launched_at - axis.start) // axis.length)
    last = int(((lifetime.ended_at or now) - axis.start) // axis.length) + 1
    return range(max(0, first), min(axis.count, last + 1))


def lower_bounds(entries: Iterable[Entry], axis: Axis) -> list[float | None]:
    """Return the lower bound of each bucket, as the leader computed it at the end of each interval of the record."""
    bounds: list[float | None] = [None] * axis.count
    recorded = [(entry.since, entry.at, entry.lower_bound) for entry in entries if isinstance(entry, CostEntry)]
    for since, at, value in sorted(recorded, key=lambda item: item[1]):
        first = max(0, int((since - axis.start) // axis.length))
        last = min(axis.count - 1, int((at - axis.start) // axis.length))
        bounds[first : last + 1] = [value] * max(0, last + 1 - first)
    return bounds
