"""What an operator set that bears on every plan; apart from all else, so that reading settings stays quick."""

from __future__ import annotations

from dataclasses import dataclass

from tenon.scheduling.model import NODE_CHARGE


@dataclass(frozen=True, slots=True)
class PlanPolicy:
    """The settings that bear on plans."""

    ignore_preferences: bool = False
    """PREFERENCE_POLICY=Ignore."""
    min_values_best_effort: bool = False
    """MIN_VALUES_POLICY=BestEffort."""
    node_charge: float = NODE_CHARGE
    """NODE_CHARGE: dollars an hour that a node counts beside its price."""
    most_pods_share: float = 1.0
    """MAX_WORKLOAD_SHARE_PER_NODE: the part of a workload's pods that one node may carry, above 0, at most 1."""
