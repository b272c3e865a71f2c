"""A week of a NodePool as it is drawn, and what it costs.

The cost assumes that what runs now keeps running while nothing is scheduled: what pods will need, no schedule says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from tenon.apis.disruption_windows import first_instant
from tenon.schedule.desired import PoolDemand, Segment

CELL = timedelta(minutes=30)
CELLS_A_DAY = 48
DAYS = 7


class Mark(StrEnum):
    """What a cell of the picture shows: the first of these that holds at its start."""

    OFF = "."
    FLOOR = "F"
    REPLICAS = "R"
    LIMITS = "L"
    NOTHING = "-"
    SKIPPED = " "
    """The clock never shows this time."""


MEANINGS = {
    Mark.OFF: "off",
    Mark.FLOOR: "floor",
    Mark.REPLICAS: "replicas",
    Mark.LIMITS: "limits",
    Mark.NOTHING: "as without schedules",
}


@dataclass(frozen=True, slots=True)
class DayRow:
    """A day of the picture: one mark for each half hour on the clock."""

    day: date
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class PoolNow:
    """What a NodePool has now."""

    nodes: int
    price: float
    """Dollars an hour of all nodes together."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a time costs by schedule and without schedules, in dollars."""

    scheduled: float
    unscheduled: float


def first_midnight(day: date, zone: ZoneInfo) -> datetime:
    """Return when the day begins in the zone."""
    return first_instant(datetime.combine(day, time()), zone)


def rows(segments: Sequence[Segment], first_day: date, zone: ZoneInfo) -> Iterator[DayRow]:
    """Yield the days of the week that begins with the day. An hour that comes twice is drawn once, the first time."""
    for number in range(DAYS):
        day = first_day + timedelta(days=number)
        times = (datetime.combine(day, time()) + cell * CELL for cell in range(CELLS_A_DAY))
        yield DayRow(day, tuple(_mark_at(segments, local, zone) for local in times))


def _mark_at(segments: Sequence[Segment], local: datetime, zone: ZoneInfo) -> Mark:
    instant = first_instant(local, zone)
    if instant.astimezone(zone).replace(tzinfo=None) != local:
        return Mark.SKIPPED
    for segment in segments:
        if segment.start <= instant < segment.end:
            return mark_of(segment.demand)
    return Mark.NOTHING


def mark_of(demand: PoolDemand) -> Mark:
    """Return how a demand is drawn."""
    if demand.off:
        return Mark.OFF
    if demand.floor_nodes or demand.floor_spare:
        return Mark.FLOOR
    if demand.states_replicas:
        return Mark.REPLICAS
    return Mark.LIMITS if demand.limits else Mark.NOTHING


def estimate(segments: Sequence[Segment], running: PoolNow) -> Estimate | None:
    """Return what the segments cost; None if no node runs whose price could tell."""
    if not running.nodes:
        return None
    node_price = running.price / running.nodes
    scheduled = unscheduled = 0.0
    for segment in segments:
        hours = (segment.end.astimezone(UTC) - segment.start.astimezone(UTC)) / timedelta(hours=1)
        scheduled += hours * node_price * _nodes(segment.demand, running.nodes)
        unscheduled += hours * running.price
    return Estimate(scheduled, unscheduled)


def _nodes(demand: PoolDemand, nodes: int) -> int:
    if demand.off:
        return 0
    return max(demand.floor_nodes, demand.replicas_at_least, nodes if demand.replicas is None else demand.replicas)
