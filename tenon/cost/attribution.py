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

from tenon.cost.bill import Lifetime
from tenon.cost.money import divide, nanos
from tenon.cost.split import Consumer, Kind
from tenon.record.entries import CostEntry

Weights = Mapping[str, Mapping[Consumer, int]]
"""By NodePool, the weights of its consumers."""
UNMEASURED = Consumer(Kind.UNMEASURED)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of the window with the weights that hold in it."""

    start: datetime
    end: datetime
    weights: Weights


@dataclass(frozen=True, slots=True)
class Attribution:
    """What each consumer of each NodePool costs in a window."""

    amounts: Mapping[tuple[str, Consumer], int]
    """Nano-dollars, by NodePool and consumer."""
    measured_until: datetime | None
    """The end of the last entry in the window; None if there is none."""


def attribute(
    lifetimes: Sequence[Lifetime],
    entries: Sequence[CostEntry],
    since: datetime,
    until: datetime,
    current_weights: Weights | None = None,
) -> Attribution:
    """Divide the cost of a window. The amounts of a NodePool add up to what its instances cost in the window.

    Args:
        lifetimes: the instances.
        entries: those with an interval in the window; they may overlap, as when two leaders wrote some.
        since: the start of the window.
        until: its end.
        current_weights: those that hold now, for the time after the last entry; None if the window does not end now.
    """
    pieces = _pieces(entries, since, until)
    measured_until = pieces[-1].end if pieces else None
    if current_weights is not None and (start := measured_until or since) < until:
        pieces.append(_Piece(start, until, current_weights))
    boundaries = sorted({since, until, *(piece.start for piece in pieces), *(piece.end for piece in pieces)})
    costs = _costs(lifetimes, boundaries)
    weights_by_start = {piece.start: piece.weights for piece in pieces}
    amounts: dict[tuple[str, Consumer], int] = {}
    for (place, pool), cost in costs.items():
        weights = weights_by_start.get(boundaries[place], {}).get(pool, {})
        consumers = sorted(consumer for consumer, weight in weights.items() if weight > 0) or [UNMEASURED]
        parts = divide(cost, [weights.get(consumer, 1) for consumer in consumers])
        for consumer, part in zip(consumers, parts, strict=True):
            amounts[pool, consumer] = amounts.get((pool, consumer), 0) + part
    return Attribution({key: amount for key, amount in amounts.items() if amount}, measured_until)


def weights_of(entry: CostEntry) -> dict[str, dict[Consumer, int]]:
    """Return the rows of an entry as weights. A kind that a newer version writes counts as pods."""
    weights: dict[str, dict[Consumer, int]] = {}
    kinds = {kind.value: kind for kind in Kind}
    for row in entry.rows:
        consumer = Consumer(kinds.get(row.of, Kind.PODS), row.namespace, row.workload)
        of_pool = weights.setdefault(row.pool, {})
        of_pool[consumer] = of_pool.get(consumer, 0) + max(0, nanos(row.cost))
    return weights


def _pieces(entries: Sequence[CostEntry], since: datetime, until: datetime) -> list[_Piece]:
    """The intervals within the window, in order. Of two that overlap, the later one begins where the other ends."""
    pieces: list[_Piece] = []
    covered = since
    for entry in sorted(entries, key=lambda entry: (entry.since, entry.at)):
        start, end = max(covered, entry.since), min(until, entry.at)
        if start < end:
            pieces.append(_Piece(start, end, weights_of(entry)))
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
