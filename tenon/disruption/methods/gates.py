"""The feature gates that methods depend on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DecisionGates:
    """Which of the feature gates that change decisions are on. Kept inputs of decisions have them."""

    spot_to_spot: bool = False
    """SpotToSpotConsolidation: spot nodes may be replaced by spot nodes."""
    terminate_first_drift: bool = False
    """TerminateFirstDrift: drifted nodes may leave before their replacements start if there is no room for both."""
    terminate_first_repair: bool = False
    """TerminateFirstRepair: the same of unhealthy nodes."""


NO_GATES = DecisionGates()
