"""The status of a NodeSchedule, and how long nodes take to be Ready, which it remembers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from tenon.apis.conditions import set_condition, with_validation
from tenon.apis.nodeschedule import MAX_BOOT_SECONDS, NodeSchedule, NodeScheduleStatus
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.timestamps import format_instant
from tenon.schedule.desired import NOTHING, Desired
from tenon.schedule.node_pools import in_words

INVALID = "NodeScheduleInvalid"
APPLIED = "Applied"
NOT_APPLIED = "NotApplied"
MAX_MESSAGE = 1000
MAX_WORDS = 500
_STEP_SECONDS = 30
_MARGIN = 1.25
"""Nodes are launched earlier by this factor than they took of late: pods must start too, and no two boots are alike."""


def learned_boot_time(claims: Iterable[ClaimRecord]) -> int | None:
    """Return the seconds that nodes of a NodePool need, in steps of half a minute; None if no node tells.

    That is a quarter more than the longest time from the creation of a NodeClaim until its node was initialized.
    """
    times = [
        (claim.initialized_at - claim.created_at).total_seconds()
        for claim in claims
        if claim.initialized_at is not None and claim.created_at is not None
    ]
    longest = max((seconds for seconds in times if 0 < seconds <= MAX_BOOT_SECONDS), default=None)
    if longest is None:
        return None
    return min(MAX_BOOT_SECONDS, _STEP_SECONDS * math.ceil(longest * _MARGIN / _STEP_SECONDS))


def schedule_status(
    model: NodeSchedule | None,
    before: Mapping[str, Any],
    problems: Sequence[str],
    schedules_ask: Desired,
    boot_seconds: Mapping[str, int],
    obstacles: Sequence[str],
    *,
    now: datetime,
    generation: int | None = None,
) -> dict[str, Any]:
    """Return the new status of a NodeSchedule as JSON.

    Args:
        model: the schedule; None if it cannot be read.
        before: its current status.
        problems: what is wrong with it, in sentences. It asks for nothing then.
        schedules_ask: what all schedules ask for.
        boot_seconds: by NodePool, how long its nodes took of late.
        obstacles: why something that it asks for does not hold, in sentences.
        now: the time.
        generation: the generation that was checked.
    """
    old_status = NodeScheduleStatus.model_validate(dict(before))
    conditions = with_validation(
        old_status.conditions,
        problems,
        reason=INVALID,
        consequence="It asks for nothing until then",
        now=now,
        generation=generation,
    )
    conditions = set_condition(
        conditions,
        APPLIED,
        "False" if problems or obstacles else "True",
        now=now,
        reason=NOT_APPLIED if problems or obstacles else APPLIED,
        message="; ".join(obstacles)[:MAX_MESSAGE],
        observed_generation=generation,
    )
    known_boots = {row.name: row.boot_time for row in old_status.node_pools}
    rows, next_change = [], None
    if model is not None and model.in_force and not problems:
        changes = [at for name in model.spec.node_pools if (at := schedules_ask.until.get(name)) is not None]
        if schedules_ask.buffers_change is not None and any(entry.headroom for entry in model.spec.entries):
            changes.append(schedules_ask.buffers_change)
        next_change = min(changes, default=None)
        for name in model.spec.node_pools:
            until, seconds = schedules_ask.until.get(name), boot_seconds.get(name)
            boot_time = f"{seconds}s" if seconds is not None else known_boots.get(name)
            row = {
                "name": name,
                "holds": in_words(schedules_ask.pools.get(name, NOTHING))[:MAX_WORDS],
                "until": format_instant(until) if until is not None else None,
                "bootTime": str(boot_time) if boot_time is not None else None,
            }
            rows.append({field: value for field, value in row.items() if value is not None})
    return {
        "conditions": [condition.to_dict() for condition in conditions],
        "nodePools": rows,
        "nextChange": format_instant(next_change) if next_change is not None else None,
    }
