"""Adds up samples of the cluster to an entry of the record: who requested how much of each NodePool, over an interval.

A sample counts for the time since the one before it. So a pod is counted up to one sample too long or too short at each
of its ends, and a pod that starts and ends between two samples is not seen. The amounts are weights: what the instances
cost is known exactly from their launches and removals, and `attribution` divides that in proportion to these rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from tenon.cost.split import Consumer, ConsumerKind
from tenon.kube.timestamps import clock_instant
from tenon.money import dollars, of_time
from tenon.record.entries import MAX_COST_ROWS, CostEntry, CostRow

OTHERS = "(others)"
"""The namespace of a row that stands for those that an entry has no room for."""

Sample = Mapping[str, Mapping[Consumer, int]]
"""By NodePool, nano-dollars an hour by consumer."""


class Interval:
    """The samples since a moment."""

    def __init__(self, since: datetime) -> None:
        self.since = since
        self.until = since
        self.samples = 0
        self._amounts: dict[tuple[str, Consumer], int] = {}

    def add(self, sample: Sample, now: datetime) -> None:
        """Count a sample for the time since the last one."""
        time = max(timedelta(), now - self.until)
        for pool, prices in sample.items():
            for consumer, price in prices.items():
                key = (pool, consumer)
                self._amounts[key] = self._amounts.get(key, 0) + of_time(price, time)
        self.until = max(self.until, now)
        self.samples += 1

    @property
    def has_cost(self) -> bool:
        """Whether any instance cost anything."""
        return any(self._amounts.values())

    def entry(self, cluster: str, lower_bound: float | None = None) -> CostEntry:
        """Return the entry. The cheapest consumers of each NodePool are one row if there are too many."""
        rows = _bounded(self._amounts.items())
        return CostEntry(
            id=f"cost/{cluster}/{self.since:%Y%m%dT%H%M%S.%fZ}",
            at=self.until,
            cluster=cluster,
            since=self.since,
            samples=self.samples,
            rows=rows,
            cost=dollars(sum(self._amounts.values())),
            lower_bound=None if lower_bound is None else round(lower_bound, 6),
        )


def next_end(moment: datetime, interval: timedelta) -> datetime:
    """Return when the interval ends that a moment is in. Intervals of all replicas begin at the same times."""
    epoch = clock_instant(0)
    return epoch + ((moment - epoch) // interval + 1) * interval


def _bounded(amounts: Iterable[tuple[tuple[str, Consumer], int]]) -> list[CostRow]:
    dearest = sorted((item for item in amounts if item[1]), key=lambda item: (-item[1], item[0]))
    own_rows, others = dearest, dearest[:0]
    if len(dearest) > MAX_COST_ROWS:
        pools = len({pool for (pool, _), _ in dearest})
        room = max(0, MAX_COST_ROWS - pools * len(ConsumerKind))
        own_rows, others = dearest[:room], dearest[room:]
    rows = [
        _row(pool, consumer.kind, consumer.namespace, consumer.workload, amount)
        for (pool, consumer), amount in own_rows
    ]
    sums: dict[tuple[str, ConsumerKind], int] = {}
    for (pool, consumer), amount in others:
        sums[pool, consumer.kind] = sums.get((pool, consumer.kind), 0) + amount
    return rows + [_row(pool, kind, OTHERS, "", amount) for (pool, kind), amount in sorted(sums.items())]


def _row(pool: str, kind: ConsumerKind, namespace: str, workload: str, amount: int) -> CostRow:
    return CostRow(pool=pool, of=kind.value, namespace=namespace, workload=workload, cost=dollars(amount))
