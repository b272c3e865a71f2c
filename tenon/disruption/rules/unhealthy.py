"""Whether a node is unhealthy, what is done about it now, and what keeps repair from it (N15-121 to N15-127)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from tenon.apis.reasons import Reason
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.repair.breaker import Breaker
from tenon.disruption.repair.decision import Fault, NodeHistory, RepairDecision, decide_repair, faults_of, next_due
from tenon.disruption.repair.pool_policies import PoolRepair
from tenon.disruption.rules.pool_budgets import is_counted, left_together
from tenon.disruption.situation import Situation


def faults_of_node(node: ManagedNode, situation: Situation) -> tuple[Fault, ...]:
    """Return the faults of a node, whether or not they are due. None if node repair is off."""
    if not node.unhealthy or situation.repair is None:
        return ()
    history = NodeHistory(node.node_created_at, node.rebooted_at, node.reboots)
    return faults_of(node.unhealthy, situation.repair.policies_of(node.pool), history, situation.now)


def repair_of(node: ManagedNode, situation: Situation) -> RepairDecision | None:
    """Return what is done about a node now; None if nothing is."""
    if not node.unhealthy:  # thousands of nodes ask
        return None
    return decide_repair(faults_of_node(node, situation), situation.now)


def next_repair(situation: Situation) -> datetime | None:
    """Return when the next fault of a node becomes due; None if no more do."""
    times = (next_due(faults_of_node(node, situation), situation.now) for node in situation.nodes if node.unhealthy)
    return min((time for time in times if time is not None), default=None)


def has_bound(node: ManagedNode, situation: Situation) -> bool:
    """Return whether the drain of a node that is repaired ends, so that no pod keeps it for ever (N15-126).

    Only a model knows the NodeClaim's terminationGracePeriod. Without one, the drain counts as bounded.
    """
    decision, detail = repair_of(node, situation), situation.detail_of(node)
    return detail is None or detail.has_grace_period or (decision is not None and decision.drain_bound is not None)


class PolicyBudgets:
    """What the budgets of NodeRepairPolicies leave in one pass. Computed on first use of a policy."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._remaining: dict[str, int] = {}

    def why_waits(self, node: ManagedNode) -> str:
        """Return which policy keeps the repair of a node back, in a clause; empty if none does."""
        repair = self._situation.repair
        budgets = repair.budgets.get(node.pool) if repair is not None else None
        if budgets is None or not is_counted(node):
            return ""
        if budgets.policy not in self._remaining:
            self._remaining[budgets.policy] = left_together(
                self._situation, budgets.pools, budgets.budgets, Reason.UNHEALTHY
            )
        if self._remaining[budgets.policy] > 0:
            return ""
        return f"the budgets of NodeRepairPolicy {budgets.policy} allow no more repairs now"


def with_breaker(repair: PoolRepair, nodes: Sequence[ManagedNode]) -> PoolRepair:
    """Return what repair does with these nodes: nothing in NodePools of which too many are unhealthy (N15-127).

    A node counts from the first moment of its fault, before its toleration is over. One without a Node does not count.
    """
    sick = {
        node.claim
        for node in nodes
        if node.unhealthy and node.node and any(map(repair.policies_of(node.pool).matching, node.unhealthy))
    }
    if not sick:  # most clusters are healthy, and are asked all the time
        return replace(repair, tripped=frozenset())
    present = [node for node in nodes if node.node]
    breaker = Breaker((node.pool, node.claim in sick) for node in present)
    pools = {node.pool for node in present if node.claim in sick}
    return replace(repair, tripped=frozenset(pool for pool in pools if breaker.why_blocked(pool)))


def without_pool(nodes: Iterable[ManagedNode], situation: Situation) -> dict[str, str]:
    """Return the event of each node that would be repaired if its NodeClaim belonged to a NodePool (N15-124).

    ``nodes``: those of stand-alone NodeClaims.
    """
    due = ((node, repair_of(node, situation)) for node in nodes if not (node.leaving or node.rebooting))
    return {
        node.claim: f"Its node is unhealthy ({decision.fault.text}), but repair requires a NodePool, and it has none"
        for node, decision in due
        if decision is not None
    }


def stopped_by_breaker(situation: Situation) -> Iterator[ManagedNode]:
    """Yield the nodes that would be repaired now if not too many nodes of their NodePool were unhealthy."""
    if situation.repair is None or not situation.repair.tripped:
        return
    for node in situation.nodes:
        is_repaired = node.pool in situation.repair.tripped and not (node.leaving or node.rebooting)
        if is_repaired and repair_of(node, situation) is not None:
            yield node
