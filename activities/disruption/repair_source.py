"""Where passes get the repair policies from, which may change while the worker runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from activities.disruption.repair_policies import RepairPolicies
from tenon.apis.nodepool import NodePool
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.repair.policies import built_in
from tenon.disruption.repair.pool_policies import PoolRepair
from tenon.disruption.repair.user_policies import pool_repair
from tenon.disruption.rules.unhealthy import with_breaker

RepairSource = Callable[[], PoolRepair | None]
"""Returns the repair policies of all NodePools; None if node repair is off, or is as in Karpenter 1.14."""


def no_repair() -> None:
    """Node repair is off."""


def stated_repair(
    policies: Callable[[], RepairPolicies], pools: Callable[[], Sequence[NodePool]], *, reboots: bool
) -> RepairSource:
    """Return the source of the policies that users state, and of Karpenter's for all other NodePools.

    Args:
        policies: returns the NodeRepairPolicies as they are now.
        pools: returns the NodePools as they are now.
        reboots: Karpenter's policies may reboot nodes (the AWS feature gate RebootForRepair).
    """
    karpenters = built_in(reboots=reboots)

    def source() -> PoolRepair:
        written = policies()
        if not written.policies:
            return PoolRepair(karpenters)
        return pool_repair(karpenters, written.policies, written.invalid, pools())

    return source


def repair_now(source: RepairSource, nodes: Sequence[ManagedNode]) -> PoolRepair | None:
    """Return what repair does with the nodes as they are now."""
    repair = source()
    return None if repair is None else with_breaker(repair, nodes)
