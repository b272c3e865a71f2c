"""The status of a DisruptionFreeze."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tenon.apis.common import Condition
from tenon.apis.conditions import clear_condition, set_condition, with_validation
from tenon.apis.disruptionfreeze import DisruptionFreeze, DisruptionFreezeStatus
from tenon.disruption.freezes.calendar_times import known_times
from tenon.disruption.freezes.freeze import NEVER, freeze_of
from tenon.kube.timestamps import format_instant, time_text

INVALID = "DisruptionFreezeInvalid"
CALENDAR_READ = "CalendarRead"
"""The condition that says whether the last try to read the calendar succeeded."""


def freeze_status(
    model: DisruptionFreeze | None,
    before: Mapping[str, Any],
    problems: Sequence[str],
    node_pools: int,
    *,
    now: datetime,
    generation: int | None = None,
) -> tuple[dict[str, Any], datetime | None]:
    """Return the new status of a freeze as JSON, and when time alone changes it next; None if it does not.

    That may be earlier than the `nextChange` that people read: a freeze also begins when what is known of its calendar
    ends, but each read of the calendar postpones that.

    Args:
        model: the freeze; None if it cannot be read.
        before: its current status.
        problems: what is wrong with it, in sentences.
        node_pools: how many NodePools it selects.
        now: the time.
        generation: the generation that was checked.
    """
    freeze = freeze_of(model) if model is not None else None
    ends = freeze.ends(now) if freeze is not None else None
    change = ends if ends is not None else freeze.begins(now) if freeze is not None else None
    if change == NEVER:
        change = None
    conditions = DisruptionFreezeStatus.model_validate({"conditions": before.get("conditions") or []}).conditions
    conditions = with_validation(
        conditions,
        problems,
        reason=INVALID,
        consequence="The NodePools that it selects are frozen until then",
        now=now,
        generation=generation,
    )
    if model is not None:
        conditions = _with_calendar(conditions, model, now, generation)
    status: dict[str, Any] = {
        "conditions": [condition.to_dict() for condition in conditions],
        "active": ends is not None,
        "nextChange": format_instant(change.astimezone(UTC)) if change is not None else None,
        "nodePools": node_pools,
    }
    if (model is None or model.spec.calendar is None) and before.get("calendar"):
        status["calendar"] = None
    known_until = freeze.calendar.known_until if freeze is not None and freeze.calendar is not None else now
    return status, min((at for at in (change, known_until) if at is not None and at > now), default=None)


def _with_calendar(
    conditions: list[Condition], model: DisruptionFreeze, now: datetime, generation: int | None
) -> list[Condition]:
    """Say whether the calendar can be read, and what holds if not. Nothing is said without a calendar."""
    calendar, status = model.spec.calendar, model.status.calendar
    if calendar is None:
        return clear_condition(conditions, CALENDAR_READ)
    times = known_times(calendar, status)
    failure = status.failure if status is not None else ""
    if times is None:
        consequence = "The NodePools that it selects are frozen until it can be read"
    else:
        consequence = f"Its last times hold until {time_text(times.known_until)}, and all of the time after that"
    return set_condition(
        conditions,
        CALENDAR_READ,
        "False" if failure else "Unknown" if times is None else "True",
        now=now,
        reason="CalendarUnreadable" if failure else "CalendarNotReadYet" if times is None else CALENDAR_READ,
        message=f"{failure}. {consequence}" if failure else consequence if times is None else "",
        observed_generation=generation,
    )
