"""When a NodeSchedule changes what holds, as instants for the Temporal Schedule that fires then."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from tenon.apis.nodeschedule import NodeSchedule
from tenon.evolve import evolve
from tenon.schedule.desired import headroom_changes, timeline

AHEAD = timedelta(days=8)
MAX_TIMES = 100
"""Temporal keeps each as an entry of the Schedule. The worker replaces them long before the last one."""


def change_times(schedules: Sequence[NodeSchedule], name: str, now: datetime) -> list[datetime]:
    """Return the next instants after now, in whole seconds of UTC, at which something changes for a schedule.

    What holds for a NodePool depends on all schedules that name it, so a change by another of them counts too. The
    Temporal Schedule of a schedule that is paused there keeps its times.

    Args:
        schedules: all valid schedules.
        name: the schedule that is asked about.
    """
    schedules = [_resumed(item) if item.metadata.name == name else item for item in schedules]
    schedule = next((item for item in schedules if item.metadata.name == name), None)
    if schedule is None or not schedule.in_force:
        return []
    times = {
        segment.start
        for pool in schedule.spec.node_pools
        for segment in timeline(schedules, pool, now, now + AHEAD)[1:]
    }
    times |= {at for at in headroom_changes([schedule], now, now + AHEAD) if at > now}
    return sorted(at.astimezone(UTC).replace(microsecond=0) for at in times)[:MAX_TIMES]


def _resumed(schedule: NodeSchedule) -> NodeSchedule:
    return evolve(schedule, status=evolve(schedule.status, paused=False)) if schedule.status.paused else schedule
