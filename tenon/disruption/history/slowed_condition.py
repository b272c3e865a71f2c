"""The condition with which a NodePool says that its consolidation is slowed down because it saved too little."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from tenon.apis.common import Condition
from tenon.apis.conditions import clear_condition, get_condition, is_true, set_condition
from tenon.apis.nodepool import CONSOLIDATION_SLOWED
from tenon.disruption.history.savings import is_slowed, sentence, waits_until
from tenon.messages.disruption import PoolSavings

_WAITS, _ONE_AT_A_TIME = "WaitsAfterCommand", "OneCommandAtATime"


def with_slowed(
    conditions: Sequence[Condition], savings: PoolSavings | None, *, now: datetime, observed_generation: int | None
) -> list[Condition]:
    """Set the condition that says that a NodePool is slowed down. Other NodePools do not have it."""
    if savings is None or not is_slowed(savings, now):
        return clear_condition(conditions, CONSOLIDATION_SLOWED)
    return set_condition(
        conditions,
        CONSOLIDATION_SLOWED,
        "True",
        now=now,
        reason=_WAITS if now < waits_until(savings) else _ONE_AT_A_TIME,
        message=sentence(savings)[:1].upper() + sentence(savings)[1:],
        observed_generation=observed_generation,
    )


def slowed_by_conditions(conditions: Mapping[str, Sequence[Condition]]) -> dict[str, str]:
    """Return what `slowed_pools` says, as far as the conditions of the NodePools show it."""
    slowed = {}
    for pool, pool_conditions in conditions.items():
        condition = get_condition(pool_conditions, CONSOLIDATION_SLOWED)
        if condition is not None and is_true(pool_conditions, CONSOLIDATION_SLOWED):
            message = condition.message
            slowed[pool] = message[:1].lower() + message[1:] if condition.reason == _WAITS else ""
    return slowed
