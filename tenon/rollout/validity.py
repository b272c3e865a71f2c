"""The conditions of a NodeRollout: whether it can be followed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tenon.apis.common import Condition
from tenon.apis.conditions import set_condition, set_root
from tenon.apis.noderollout import VALIDATION_SUCCEEDED

INVALID = "NodeRolloutInvalid"
MAX_MESSAGE = 1000


def with_validity(
    before: Sequence[Condition], problems: Sequence[str], *, now: datetime, generation: int | None
) -> list[Condition]:
    """Return the conditions of a NodeRollout with these problems, which are sentences."""
    why = "; ".join(problems)
    conditions = set_condition(
        before,
        VALIDATION_SUCCEEDED,
        "False" if why else "True",
        now=now,
        reason=INVALID if why else VALIDATION_SUCCEEDED,
        message=f"{why}. No wave begins until then"[:MAX_MESSAGE] if why else "",
        observed_generation=generation,
    )
    return set_root(conditions, (VALIDATION_SUCCEEDED,), now=now, observed_generation=generation)
