"""Which repair policies hold for which NodePool, and in which NodePools repair has stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tenon.apis.nodepool import Budget
from tenon.disruption.repair.policies import RepairPolicySet


@dataclass(frozen=True, slots=True)
class RepairBudgets:
    """How many nodes of some NodePools together may be away for a repair to begin."""

    policy: str
    """The NodeRepairPolicy that says so."""
    pools: frozenset[str]
    """The NodePools for which the policy holds."""
    budgets: tuple[Budget, ...]


@dataclass(frozen=True, slots=True)
class PoolRepair:
    """What node repair does in the NodePools of the cluster."""

    built_in: RepairPolicySet
    """The policies of NodePools that have no others."""
    by_pool: Mapping[str, RepairPolicySet] = field(default_factory=dict)
    """By NodePool, the policies that stand in for the built-in ones."""
    budgets: Mapping[str, RepairBudgets] = field(default_factory=dict)
    """By NodePool, the budgets of its policy, if that has any."""
    tripped: frozenset[str] = frozenset()
    """The NodePools of which too many nodes are unhealthy, so that none is repaired (N15-127)."""

    def policies_of(self, pool: str) -> RepairPolicySet:
        """Return the policies of a NodePool."""
        return self.by_pool.get(pool, self.built_in)
