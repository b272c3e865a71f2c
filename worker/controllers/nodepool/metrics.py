"""Exports NodePools as gauges (limits, usage, held-back launches), which drop to 0 when a NodePool is deleted.

The metrics of all processes of a worker are served from files, and a series in such a file cannot be removed. Its last
value would report the nodes of a deleted NodePool forever, and alert about its launches.
"""

from __future__ import annotations

from collections.abc import Collection

from prometheus_client import Gauge

from activities import metrics
from tenon.apis.hourly_cost import MICRO_DOLLARS
from tenon.apis.nodepool import NodePool
from tenon.resources import Resources
from tenon.scheduling.offerings.hourly_cost import HOURLY_COST, TOTAL_HOURLY_COST

_UNITS = {"cpu": 1000, HOURLY_COST: MICRO_DOLLARS, TOTAL_HOURLY_COST: MICRO_DOLLARS}
"""How many units of a resource the gauges count as one: cores, and dollars an hour."""


class PoolMetrics:
    """Sets the gauges, and remembers which series it set."""

    def __init__(self) -> None:
        self._reported: dict[str, set[tuple[Gauge, str]]] = {}
        self._with_breaker: set[str] = set()

    def measure(self, pool: NodePool, usage: Resources, limits: Resources) -> None:
        """Set the limits and the usage of one NodePool."""
        name = pool.metadata.name
        reported: set[tuple[Gauge, str]] = set()
        for gauge, amounts in ((metrics.POOL_USAGE, usage), (metrics.POOL_LIMIT, limits)):
            for resource, units in amounts.items():
                gauge.labels(resource, name).set(units / _UNITS.get(resource, 1))
                reported.add((gauge, resource))
        self._end(name, self._reported.get(name, set()) - reported)
        self._reported[name] = reported

    def measure_breaker(self, pool: str, *, is_open: bool) -> None:
        """Set whether the launch breaker of one NodePool is open."""
        metrics.OPEN_BREAKERS.labels(pool).set(is_open)
        self._with_breaker.add(pool)

    def forget_all_but(self, pools: Collection[str]) -> None:
        """Set the gauges of all other NodePools to 0."""
        for name in self._with_breaker.difference(pools):
            metrics.OPEN_BREAKERS.labels(name).set(0)
            self._with_breaker.discard(name)
        for name in [name for name in self._reported if name not in pools]:
            self._end(name, self._reported.pop(name))

    def _end(self, pool: str, series: set[tuple[Gauge, str]]) -> None:
        for gauge, resource in series:
            gauge.labels(resource, pool).set(0)
