"""The conditions of a NodeOverlay: whether it applies, and if not, why."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tenon.apis.common import Condition
from tenon.apis.conditions import VALIDATION_SUCCEEDED, set_condition, set_root
from tenon.apis.nodeoverlay import CONFLICT
from tenon.provisioning.overlays import Overlaid

RUNTIME_VALIDATION = "RuntimeValidation"
"""Reason of ValidationSucceeded=False: the overlay itself is invalid."""


def overlay_conditions(
    name: str,
    before: Sequence[Condition],
    faults: Sequence[str],
    overlaid: Overlaid,
    *,
    now: datetime,
    generation: int | None = None,
) -> list[Condition]:
    """Return the new conditions of the overlay.

    Args:
        name: the overlay.
        before: its current conditions.
        faults: what is wrong with the overlay itself. An overlay with faults is not in ``overlaid``.
        overlaid: the result of applying all overlays without faults.
        now: the time.
        generation: the generation of the overlay that was evaluated.
    """
    why = "; ".join(faults) or overlaid.refused.get(name, "")
    reason = CONFLICT if name in overlaid.rivals else RUNTIME_VALIDATION
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
