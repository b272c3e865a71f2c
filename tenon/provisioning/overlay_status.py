"""What the conditions of a NodeOverlay say: whether it holds, and if not, why."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tenon.apis.common import Condition
from tenon.apis.conditions import set_condition, set_root
from tenon.apis.nodeoverlay import CONFLICT, VALIDATION_SUCCEEDED
from tenon.provisioning.overlays import Overlaid

RUNTIME_VALIDATION = "RuntimeValidation"
"""Reason of ValidationSucceeded=False: what the overlay says makes no sense."""


def overlay_conditions(
    name: str,
    before: Sequence[Condition],
    faults: Sequence[str],
    seen: Overlaid,
    *,
    now: datetime,
    generation: int | None = None,
) -> list[Condition]:
    """The conditions as they should be.

    Args:
        name: the overlay.
        before: its conditions.
        faults: what is wrong with it by itself; such an overlay takes no part in what follows.
        seen: what became of all overlays without faults.
        now: the time.
        generation: the version of the overlay that was looked at.
    """
    why = "; ".join(faults) or seen.refused.get(name, "")
    reason = CONFLICT if name in seen.rivals else RUNTIME_VALIDATION
    conditions = set_condition(
        before,
        VALIDATION_SUCCEEDED,
        "False" if why else "True",
        now=now,
        reason=reason if why else VALIDATION_SUCCEEDED,
        message=why[:1000],
        observed_generation=generation,
    )
    return set_root(conditions, (VALIDATION_SUCCEEDED,), now=now, observed_generation=generation)
