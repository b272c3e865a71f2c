"""Samples add up to a bounded entry of the record."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tenon.cost.sampling import OTHERS, Interval, next_end
from tenon.cost.split import IDLE, Consumer, ConsumerKind
from tenon.money import nanos
from tenon.record.entries import MAX_COST_ROWS
from tenon.record.lines import entry_of, line_of
from tests.tenon.cost.ledger import T0

SHOP = Consumer(ConsumerKind.PODS, "shop", "Deployment/web")
MINUTE = timedelta(minutes=1)


def test_a_sample_counts_for_the_time_since_the_one_before() -> None:
    interval = Interval(T0)
    interval.add({"pool": {SHOP: nanos(0.6), IDLE: nanos(1.2)}}, T0 + MINUTE)
    interval.add({"pool": {SHOP: nanos(1.2)}}, T0 + 3 * MINUTE)
    entry = interval.entry("test")
    assert (entry.since, entry.at, entry.samples) == (T0, T0 + 3 * MINUTE, 2)
    assert [(row.of, row.namespace, row.workload, row.cost) for row in entry.rows] == [
        ("pods", "shop", "Deployment/web", 0.05),
        ("idle", "", "", 0.02),
    ]
    assert entry.cost == 0.07
    assert entry_of(line_of(entry)) == entry


def test_a_clock_that_goes_back_costs_nothing() -> None:
    interval = Interval(T0)
    interval.add({"pool": {SHOP: nanos(1.0)}}, T0 - MINUTE)
    assert interval.entry("test").rows == []
    assert interval.until == T0


def test_the_cheapest_workloads_are_one_row_if_there_are_too_many() -> None:
    prices = {Consumer(ConsumerKind.PODS, f"ns-{number}"): nanos(0.6 + number) for number in range(MAX_COST_ROWS + 100)}
    interval = Interval(T0)
    interval.add({"pool": prices, "small": {IDLE: nanos(0.06)}}, T0 + MINUTE)
    entry = interval.entry("test")
    assert len(entry.rows) <= MAX_COST_ROWS
    assert sum(nanos(row.cost) for row in entry.rows) == nanos(entry.cost)
    namespaces = [row.namespace for row in entry.rows if row.namespace != OTHERS]
    assert namespaces[0] == f"ns-{MAX_COST_ROWS + 99}"
    assert "ns-0" not in namespaces
    assert [(row.pool, row.of) for row in entry.rows if row.namespace == OTHERS] == [
        ("pool", "pods"),
        ("small", "idle"),
    ]


@pytest.mark.parametrize(("minute", "end"), [(0, 15), (14, 15), (15, 30), (59, 60)])
def test_intervals_of_all_replicas_end_at_the_same_times(minute: int, end: int) -> None:
    hour = datetime(2026, 1, 2, 12, tzinfo=UTC)
    assert next_end(hour + minute * MINUTE, 15 * MINUTE) == hour + end * MINUTE
