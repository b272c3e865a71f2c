"""The condition with which a NodePool says that a NodeSchedule has it off, and when it opens."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tenon.apis.common import Condition
from tenon.apis.conditions import clear_condition, set_condition
from tenon.apis.nodepool import SCHEDULED_OFF
from tenon.schedule.desired import Desired
from tenon.schedule.node_pools import closed_clause

OFF, OFF_SOON = "Off", "OffSoon"
"""The reasons: it has no nodes, or it launches none because it is off in less than a boot time."""


def with_scheduled_off(
    conditions: Sequence[Condition],
    pool: str,
    schedules_ask: Desired,
    *,
    now: datetime,
    observed_generation: int | None,
) -> list[Condition]:
    """Set the condition of a NodePool that launches nothing by schedule. Other NodePools do not have it."""
    demand = schedules_ask.pools.get(pool)
    if demand is None or demand.launches:
        return clear_condition(conditions, SCHEDULED_OFF)
    clause = closed_clause(pool, schedules_ask)
    return set_condition(
        conditions,
        SCHEDULED_OFF,
        "True",
        now=now,
        reason=OFF if demand.off else OFF_SOON,
        message=clause[:1].upper() + clause[1:],
        observed_generation=observed_generation,
    )
