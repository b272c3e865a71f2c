"""The limits and the usage of NodePools as gauges, which go to 0 when there is nothing more to tell.

The metrics of all processes of a worker are served together, from files, and a series in such a file cannot be taken
back. Left at its last value it would report the nodes of a deleted NodePool for ever.
"""

from __future__ import annotations

from collections.abc import Collection

from prometheus_client import Gauge

from activities import metrics
from tenon.apis.nodepool import NodePool
from tenon.resources import Resources, parse_resources


class PoolMetrics:
    """Sets both gauges, and remembers which series it set."""

    def __init__(self) -> None:
        self._told: dict[str, set[tuple[Gauge, str]]] = {}

    def measure(self, pool: NodePool, usage: Resources) -> None:
        """Tell of one NodePool as it is now."""
        name = pool.metadata.name
        told: set[tuple[Gauge, str]] = set()
        for gauge, found in ((metrics.POOL_USAGE, usage), (metrics.POOL_LIMIT, parse_resources(pool.spec.limits))):
            for resource, units in found.items():
                gauge.labels(resource, name).set(units / 1000 if resource == "cpu" else units)
                told.add((gauge, resource))
        self._end(name, self._told.get(name, set()) - told)
        self._told[name] = told

    def forget_all_but(self, pools: Collection[str]) -> None:
        """Of other NodePools than these there is nothing to tell any more."""
        for name in [name for name in self._told if name not in pools]:
            self._end(name, self._told.pop(name))

    def _end(self, pool: str, series: set[tuple[Gauge, str]]) -> None:
        for gauge, resource in series:
            gauge.labels(resource, pool).set(0)
