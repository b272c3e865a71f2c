"""Where looks get the repair policies from, which may change while the worker runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tenon.disruption.model import ManagedNode
from tenon.disruption.repair.policies import built_in
from tenon.disruption.repair.pool_policies import PoolRepair
from tenon.disruption.rules.repair import with_breaker

RepairSource = Callable[[], PoolRepair | None]
"""Returns the repair policies of all NodePools; None if node repair is off, or is as in Karpenter 1.14."""


def no_repair() -> None:
    """Node repair is off."""


def built_in_repair(*, reboots: bool) -> RepairSource:
    """Return the source of Karpenter's policies. ``reboots``: the AWS feature gate RebootForRepair."""
    repair = PoolRepair(built_in(reboots=reboots))
    return lambda: repair


def repair_now(source: RepairSource, nodes: Sequence[ManagedNode]) -> PoolRepair | None:
    """Return what repair does with the nodes as they are now."""
    repair = source()
    return None if repair is None else with_breaker(repair, nodes)
