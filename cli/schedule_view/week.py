"""Draws the week of each NodePool: a line for each day and a character for each half hour, with or without colors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from rich.console import Console
from rich.text import Text

from tenon.apis.nodeschedule import NodeSchedule
from tenon.kube.timestamps import format_instant
from tenon.schedule.desired import Segment, pools_of, timeline, zone_of
from tenon.schedule.week import (
    DAYS,
    MEANINGS,
    DayRow,
    Estimate,
    Mark,
    PoolNow,
    estimate,
    first_midnight,
    mark_of,
    rows,
)

STYLES = {
    Mark.OFF: "bright_black",
    Mark.FLOOR: "green",
    Mark.REPLICAS: "cyan",
    Mark.LIMITS: "yellow",
    Mark.NOTHING: "white",
    Mark.SKIPPED: "",
}
_HOURS = " " * 11 + "".join(f"{hour:02d}".ljust(6) for hour in range(0, 24, 3))


@dataclass(frozen=True, slots=True)
class Week:
    """The week of a NodePool, on the clock of the first schedule that names it."""

    pool: str
    time_zone: str
    rows: Sequence[DayRow]
    segments: Sequence[Segment]
    estimate: Estimate | None


def weeks_of(schedules: Sequence[NodeSchedule], now: datetime, running: Mapping[str, PoolNow]) -> list[Week]:
    """Return the week of each NodePool that schedules name, from the day of ``now`` on."""
    weeks = []
    for pool in pools_of(schedules):
        zone = zone_of(schedules, pool)
        day = now.astimezone(zone).date()
        end = first_midnight(day + timedelta(days=DAYS), zone)
        segments = timeline(schedules, pool, first_midnight(day, zone), end)
        cost = estimate(segments, running[pool]) if pool in running else None
        weeks.append(Week(pool, zone.key, list(rows(segments, day, zone)), segments, cost))
    return weeks


def print_weeks(weeks: Sequence[Week], console: Console) -> None:
    """Print the picture of each week, and below them what the characters mean."""
    if not weeks:
        console.print(Text("No NodeSchedule names a NodePool."))
        return
    for week in weeks:
        console.print(Text(f"{week.pool}, {week.time_zone}", "bold"))
        console.print(Text(_HOURS.rstrip(), "bright_black"))
        for row in week.rows:
            line = Text(f"{row.day:%a %d %b} ")
            for mark in row.marks:
                line.append(mark.value, STYLES[mark])
            console.print(line)
        console.print(Text(_cost(week.estimate)))
        console.print()
    shown = {mark for week in weeks for row in week.rows for mark in row.marks}
    legend = Text()
    for mark, meaning in MEANINGS.items():
        if mark in shown:
            legend.append(mark.value, STYLES[mark]).append(f" {meaning}   ")
    console.print(legend)


def _cost(cost: Estimate | None) -> str:
    if cost is None:
        return "No price: none of its nodes runs now."
    share = 1 - cost.scheduled / cost.unscheduled if cost.unscheduled else 0
    return f"${cost.scheduled:,.2f} a week, and ${cost.unscheduled:,.2f} without schedules ({share:.0%} less)."


def week_document(week: Week) -> dict[str, Any]:
    """Return the week as JSON. The names of fields are for scripts: they only gain members."""
    return {
        "name": week.pool,
        "timeZone": week.time_zone,
        "segments": [
            {
                "from": format_instant(segment.start),
                "to": format_instant(segment.end),
                "holds": MEANINGS[mark_of(segment.demand)],
                "launches": segment.demand.launches,
                "entries": list(segment.demand.entries),
            }
            for segment in week.segments
        ],
        "cost": None
        if week.estimate is None
        else {"scheduled": round(week.estimate.scheduled, 4), "unscheduled": round(week.estimate.unscheduled, 4)},
    }
