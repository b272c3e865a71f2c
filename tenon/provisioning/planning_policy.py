"""The operator's settings for plans. They have their own module, so that reading settings stays fast."""

from __future__ import annotations

from dataclasses import dataclass

from tenon.scheduling.model import NODE_CHARGE


@dataclass(frozen=True, slots=True)
class PlanPolicy:
    """The settings that affect plans."""

    ignore_preferences: bool = False
    """PREFERENCE_POLICY=Ignore."""
    min_values_best_effort: bool = False
    """MIN_VALUES_POLICY=BestEffort."""
    node_charge: float = NODE_CHARGE
    """NODE_CHARGE: dollars per hour that a node counts in addition to its price."""
    most_pods_share: float = 1.0
    """MAX_WORKLOAD_SHARE_PER_NODE: the share of a workload's pods that one node may run, above 0 and at most 1."""
    max_hourly_cost: float = 0.0
    """MAX_HOURLY_COST: dollars an hour that the nodes of all NodePools may cost together; 0 is no limit."""
