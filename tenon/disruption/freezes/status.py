"""The status of a DisruptionFreeze."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tenon.apis.conditions import with_validation
from tenon.apis.disruptionfreeze import DisruptionFreeze, DisruptionFreezeStatus
from tenon.disruption.freezes.freeze import NEVER, freeze_of
from tenon.kube.timestamps import format_instant

INVALID = "DisruptionFreezeInvalid"


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
    status = {
        "conditions": [condition.to_dict() for condition in conditions],
        "active": ends is not None,
        "nextChange": format_instant(change.astimezone(UTC)) if change is not None else None,
        "nodePools": node_pools,
    }
    return status, change
