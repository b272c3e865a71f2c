"""Which pod-deletion-cost pods of ReplicaSets get, so that a scale-in empties the nodes that should leave (N15-213).

A ReplicaSet that is scaled in deletes the pods with the lowest cost first. Without a cost it spreads its deletions over
the nodes, and consolidation then evicts the pods that are budgets on each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tenon.apis.reasons import Reason
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.rules.blockers import BLOCKERS, CONSOLIDATION_OFF, is_free
from tenon.disruption.rules.pool_budgets import PoolBudgets
from tenon.disruption.situation import Situation
from tenon.kube.owners import DAEMONSET
from tenon.kube.records import PodRecord

LEAVING_COST = -(2**31)
"""The cost of pods on nodes that are leaving: no pod goes before them."""
MAX_NODES = 50
"""How many nodes change in one cycle, apart from those that are leaving (N15-221)."""
_EXEMPT_NAMESPACE = "kube-system"
_UNPINNED_OWNERS = frozenset({"ReplicaSet", "Job", DAEMONSET})
_KEEPERS = tuple(
    blocker
    for blocker in BLOCKERS
    if Reason.UNDERUTILIZED in blocker.reasons
    and (Reason.DRIFTED in blocker.reasons or blocker.name == CONSOLIDATION_OFF)
)
"""What keeps a node from consolidation for longer than its pods come and go."""


@dataclass(frozen=True, slots=True)
class CostWrite:
    """A pod whose annotation changes."""

    pod: PodRecord
    cost: int | None
    """None removes the annotation."""


@dataclass(frozen=True, slots=True)
class NodeWrites:
    """The pods of a node whose annotation changes; at least one."""

    claim: str
    pool: str
    leaving: bool
    writes: tuple[CostWrite, ...]
    unchanged: int = 0
    """How many pods of ReplicaSets on the node have the right annotation."""


def node_costs(situation: Situation, pods: Mapping[str, Sequence[PodRecord]]) -> dict[str, int]:
    """Return the cost of the pods on each node, by NodeClaim, the nodes that should be emptied first in front.

    Nodes that are leaving come first. Then drifted nodes and nodes that may be consolidated follow, those first whose
    price is highest for what it costs to move their pods. Each has a cost of its own, up to -1. Nodes that are missing
    keep their pods: something protects them, the budget is used up, their price is not known, or a pod pins them.

    Args:
        situation: the nodes, with a model that has their details.
        pods: the pods of each node, by NodeClaim.
    """
    assert situation.model is not None
    details = situation.model.details
    leaving = sorted(node.claim for node in situation.nodes if _leaves(node, situation))
    staying = [node for node in situation.nodes if node.claim in details and not _leaves(node, situation)]
    staying.sort(key=lambda node: (-details[node.claim].price / details[node.claim].cost, node.claim))
    ranked: list[str] = []
    drifted_left = PoolBudgets(situation, Reason.DRIFTED)
    consolidated_left = PoolBudgets(situation, Reason.UNDERUTILIZED)
    for drifted, budgets in ((True, drifted_left), (False, consolidated_left)):
        for node in staying:
            if node.drifted is not drifted or details[node.claim].price <= 0:
                continue
            if any(map(pins, pods.get(node.claim, ()))) or not _may_leave(node, situation):
                continue
            if budgets.take(node.pool):
                ranked.append(node.claim)
    return dict.fromkeys(leaving, LEAVING_COST) | {claim: place - len(ranked) for place, claim in enumerate(ranked)}


def pending_writes(situation: Situation, pods: Mapping[str, Sequence[PodRecord]]) -> list[NodeWrites]:
    """Return which pods need another annotation than they have, by node, in the order of the writes.

    Pods of nodes without a cost lose the annotation, also if a user wrote it (N15-219).

    Args:
        situation: the nodes, with a model that has their details.
        pods: the pods of each node, by NodeClaim.
    """
    costs = node_costs(situation, pods)
    nodes = {node.claim: node for node in situation.nodes}
    order = [*costs, *sorted(nodes.keys() - costs.keys())]
    pending = []
    for claim in order:
        cost = costs.get(claim)
        text = None if cost is None else str(cost)
        scaled = [pod for pod in pods.get(claim, ()) if _is_scaled_in(pod)]
        writes = tuple(CostWrite(pod, cost) for pod in scaled if pod.deletion_cost != text)
        if writes:
            leaves = cost == LEAVING_COST
            pending.append(NodeWrites(claim, nodes[claim].pool, leaves, writes, len(scaled) - len(writes)))
    return pending


def of_one_cycle(pending: Iterable[NodeWrites]) -> tuple[list[NodeWrites], list[NodeWrites]]:
    """Return the writes of one cycle, and those that wait for the next one."""
    first: list[NodeWrites] = []
    rest: list[NodeWrites] = []
    changed = 0
    for node in pending:
        if not node.leaving:
            changed += 1
        (first if node.leaving or changed <= MAX_NODES else rest).append(node)
    return first, rest


def pins(pod: PodRecord) -> bool:
    """Return whether the pod keeps its node from being emptied by a scale-in: a StatefulSet's or a pod of its own.

    A mirror pod ends with its node, and a pod that ended holds nothing.
    """
    if pod.terminal or pod.mirror or pod.pod.namespace == _EXEMPT_NAMESPACE:
        return False
    return pod.owner_kind not in _UNPINNED_OWNERS


def _is_scaled_in(pod: PodRecord) -> bool:
    """Whether a ReplicaSet of apps/v1 may delete the pod."""
    return pod.selector_owner[0] == "replicasets" and not pod.terminal and not pod.deleting


def _leaves(node: ManagedNode, situation: Situation) -> bool:
    return node.leaving or bool(node.disrupted_by) or node.claim in situation.under_command


def _may_leave(node: ManagedNode, situation: Situation) -> bool:
    if node.drifted:
        policy = situation.policies.get(node.pool)
        return policy is not None and policy.replicas is None and is_free(node, situation, Reason.DRIFTED)
    return not any(blocker.keeps(node, situation) for blocker in _KEEPERS)
