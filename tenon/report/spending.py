"""What nodes cost over time: each node costs its price from its launch to its termination.

Removals say when a node was launched, and live NodeClaims too. So the record need not reach back to the first launch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate, pairwise

from tenon.page.time_axis import Axis
from tenon.record.entries import Entry, LaunchEntry, NodeFacts, RemovalEntry
from tenon.report.live import LiveNode

SECONDS_AN_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Lifetime:
    """How long a node ran, and what it cost an hour."""

    claim: str
    pool: str
    start: datetime
    end: datetime | None
    """None while it runs."""
    price: float
    """Dollars an hour; 0 if it is not known."""

    def hours_between(self, start: datetime, end: datetime) -> float:
        """Return how many hours of a window the node ran."""
        last = end if self.end is None else min(self.end, end)
        return max(0.0, (last - max(self.start, start)).total_seconds() / SECONDS_AN_HOUR)


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """The nodes of a window."""

    nodes: Sequence[Lifetime]
    unpriced: int
    """How many have no known price, so that they count as free."""
    lost: Sequence[str]
    """NodeClaims whose launch is in the record, and which are gone without a removal: they are left out."""

    def cost_between(self, start: datetime, end: datetime) -> float:
        """Return the dollars that the nodes cost in a window."""
        return sum(node.price * node.hours_between(start, end) for node in self.nodes)

    def cost_by_pool(self, start: datetime, end: datetime) -> dict[str, float]:
        """Return the same by NodePool, the most expensive first."""
        costs: dict[str, float] = {}
        for node in self.nodes:
            cost = node.price * node.hours_between(start, end)
            if cost:
                costs[node.pool] = costs.get(node.pool, 0.0) + cost
        return dict(sorted(costs.items(), key=lambda item: (-item[1], item[0])))

    def an_hour(self, axis: Axis, since: datetime, now: datetime) -> list[float]:
        """Return for each bucket the mean of dollars an hour. The first counts from ``since``, the last until now."""
        bounds = [min(max(axis.start_of(number), since), now) for number in range(axis.count + 1)]
        hours = [(end - start).total_seconds() / SECONDS_AN_HOUR for start, end in pairwise(bounds)]
        dollars = [0.0] * axis.count
        whole = [0.0] * (axis.count + 1)
        """Where nodes begin and cease to cost their price for a whole bucket: a day of a node has many buckets."""
        for node in self.nodes:
            start, end = max(node.start, since), min(node.end or now, now)
            if start >= end:
                continue
            first = min(max(0, int((start - axis.start) // axis.length)), axis.count - 1)
            last = min(max(0, int((end - axis.start) // axis.length)), axis.count - 1)
            for number in {first, last}:
                dollars[number] += node.price * node.hours_between(bounds[number], bounds[number + 1])
            if last > first:
                whole[first + 1] += node.price
                whole[last] -= node.price
        running = accumulate(whole[:-1])
        return [
            (cost + price * length) / length if length > 0 else 0.0
            for cost, price, length in zip(dollars, running, hours, strict=True)
        ]


def lifetimes(entries: Iterable[Entry], live_nodes: Iterable[LiveNode]) -> Lifetimes:
    """Return when each node ran, from the record and from the nodes that run now."""
    nodes: dict[str, Lifetime] = {}
    launched: dict[str, Lifetime] = {}
    for entry in entries:
        if isinstance(entry, LaunchEntry):
            launched[entry.facts.claim] = _lifetime(entry.facts, entry.launched_at or entry.at, None)
        elif isinstance(entry, RemovalEntry) and entry.launched_at is not None:
            end = entry.terminated_at or entry.at
            nodes[entry.facts.claim] = _lifetime(entry.facts, entry.launched_at, end)
    for live in live_nodes:
        claim = live.claim
        if claim is None or not claim.provider_id or claim.name in nodes:
            continue
        earlier = launched.get(claim.name)
        start = earlier.start if earlier else claim.launched_at or claim.created_at
        price = live.row.price or (earlier.price if earlier else 0.0)
        if start is not None:
            nodes[claim.name] = Lifetime(claim.name, claim.pool, start, None, price)
    return Lifetimes(
        nodes=list(nodes.values()),
        unpriced=sum(not node.price for node in nodes.values()),
        lost=sorted(launched.keys() - nodes.keys()),
    )


def _lifetime(facts: NodeFacts, start: datetime, end: datetime | None) -> Lifetime:
    return Lifetime(facts.claim, facts.pool, start, end, facts.price)
