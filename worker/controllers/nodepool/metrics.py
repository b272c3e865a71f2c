"""Exports NodePools as gauges: limits, usage, held-back launches."""

from __future__ import annotations

from collections.abc import Collection

from activities import metrics
from activities.reported_gauges import end_all_but, report
from tenon.apis.hourly_cost import MICRO_DOLLARS
from tenon.apis.nodepool import NodePool
from tenon.resources import Resources
from tenon.scheduling.offerings.hourly_cost import HOURLY_COST, TOTAL_HOURLY_COST

_UNITS = {"cpu": 1000, HOURLY_COST: MICRO_DOLLARS, TOTAL_HOURLY_COST: MICRO_DOLLARS}
"""How many units of a resource the gauges count as one: cores, and dollars an hour."""


def measure_resources(pool: NodePool, usage: Resources, limits: Resources) -> None:
    """Set the limits and the usage of one NodePool."""
    name = pool.metadata.name
    for gauge, amounts in ((metrics.POOL_USAGE, usage), (metrics.POOL_LIMIT, limits)):
        values = {(resource, name): units / _UNITS.get(resource, 1) for resource, units in amounts.items()}
        report(gauge, values, of=name)


def measure_breaker(pool: str, *, is_open: bool) -> None:
    """Set whether the launch breaker of one NodePool is open."""
    report(metrics.OPEN_BREAKERS, {(pool,): is_open}, of=pool)


def measure_only(pools: Collection[str]) -> None:
    """Set the gauges of all other NodePools to 0."""
    for gauge in (metrics.POOL_USAGE, metrics.POOL_LIMIT, metrics.OPEN_BREAKERS):
        end_all_but(gauge, pools)
