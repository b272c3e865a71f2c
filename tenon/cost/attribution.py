"""Divides what the instances cost in a window among those who caused it.

How much was paid is known from the instances' lifetimes. Who caused it is known from the entries that the leader
wrote. For each interval of such an entry, the cost of a NodePool is divided in proportion to the entry's rows of that
NodePool. So the sums are those of the bill, whatever a sample missed. Time without an entry, such as that without a
leader, is named as unmeasured. The time since the last entry is divided as the pods request room now.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from tenon.cost.bill import Lifetime
from tenon.cost.split import Consumer, ConsumerKind
from tenon.money import divide, nanos
from tenon.record.entries import CostEntry

Weights = Mapping[str, Mapping[Consumer, int]]
"""By NodePool, the weights of its consumers."""
UNMEASURED = Consumer(ConsumerKind.UNMEASURED)
_ALL_UNMEASURED = ((UNMEASURED,), (1,))

_Shares = tuple[tuple[Consumer, ...], tuple[int, ...]]
"""Consumers in order, and their weights, of which none is zero."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """Who used each NodePool in an interval: what an entry says, in little memory."""

    since: datetime
    until: datetime
    shares: Mapping[str, _Shares]


@dataclass(frozen=True, slots=True)
class Attribution:
    """What each consumer of each NodePool costs in a window."""

    amounts: Mapping[tuple[str, Consumer], int]
    """Nano-dollars, by NodePool and consumer."""
    measured_until: datetime | None
    """The end of the last measurement in the window; None if there is none."""


def measurement_of(entry: CostEntry) -> Measurement:
    """Return what an entry says. A kind that a newer version writes counts as pods."""
    weights: dict[str, dict[Consumer, int]] = {}
    for row in entry.rows:
        of_pool = weights.setdefault(row.pool, {})
        consumer = _consumer(row.of, row.namespace, row.workload)
        of_pool[consumer] = of_pool.get(consumer, 0) + max(0, nanos(row.cost))
    return Measurement(entry.since, entry.at, {pool: _shares(of_pool) for pool, of_pool in weights.items()})


@lru_cache(100_000)
def _consumer(kind: str, namespace: str, workload: str) -> Consumer:
    """The consumer of a row, one object for all entries: a month of them has a million rows."""
    kinds = {kind.value: kind for kind in ConsumerKind}
    return Consumer(kinds.get(kind, ConsumerKind.PODS), namespace, workload)


def _shares(weights: Mapping[Consumer, int]) -> _Shares:
    consumers = tuple(sorted(consumer for consumer, weight in weights.items() if weight > 0))
    return (consumers, tuple(weights[consumer] for consumer in consumers)) if consumers else _ALL_UNMEASURED


def attribute(
    lifetimes: Sequence[Lifetime],
    measurements: Sequence[Measurement],
    since: datetime,
    until: datetime,
    current_weights: Weights | None = None,
) -> Attribution:
    """Divide the cost of a window. The amounts of a NodePool add up to what its instances cost in the window.

    Args:
        lifetimes: the instances.
        measurements: of the window; they may overlap, as when two leaders made some.
        since: the start of the window.
        until: its end.
        current_weights: those that hold now, for the time after the last measurement; None if the window does not end
            now.
    """
    pieces = _pieces(measurements, since, until)
    measured_until = pieces[-1].until if pieces else None
    if current_weights is not None and (start := measured_until or since) < until:
        shares = {pool: _shares(weights) for pool, weights in current_weights.items()}
        pieces.append(Measurement(start, until, shares))
    boundaries = sorted({since, until, *(piece.since for piece in pieces), *(piece.until for piece in pieces)})
    shares_by_start = {piece.since: piece.shares for piece in pieces}
    amounts: dict[tuple[str, Consumer], int] = {}
    for (place, pool), cost in _costs(lifetimes, boundaries).items():
        consumers, weights = shares_by_start.get(boundaries[place], {}).get(pool, _ALL_UNMEASURED)
        for consumer, part in zip(consumers, divide(cost, weights), strict=True):
            amounts[pool, consumer] = amounts.get((pool, consumer), 0) + part
    return Attribution({key: amount for key, amount in amounts.items() if amount}, measured_until)


def _pieces(measurements: Sequence[Measurement], since: datetime, until: datetime) -> list[Measurement]:
    """The intervals within the window, in order. Of two that overlap, the later one begins where the other ends."""
    pieces: list[Measurement] = []
    covered = since
    for measurement in sorted(measurements, key=lambda measurement: (measurement.since, measurement.until)):
        start, end = max(covered, measurement.since), min(until, measurement.until)
        if start < end:
            pieces.append(Measurement(start, end, measurement.shares))
            covered = end
    return pieces


def _costs(lifetimes: Sequence[Lifetime], boundaries: Sequence[datetime]) -> dict[tuple[int, str], int]:
    """What the instances of each NodePool cost between each two boundaries, by the place of the first."""
    costs: dict[tuple[int, str], int] = {}
    for lifetime in lifetimes:
        first = max(0, bisect_right(boundaries, lifetime.launched_at) - 1)
        before = lifetime.cost_until(boundaries[first])
        for place in range(first, len(boundaries) - 1):
            after = lifetime.cost_until(boundaries[place + 1])
            if after != before:
                costs[place, lifetime.pool] = costs.get((place, lifetime.pool), 0) + after - before
                before = after
            elif lifetime.ended_at is not None and lifetime.ended_at <= boundaries[place]:
                break
    return costs
