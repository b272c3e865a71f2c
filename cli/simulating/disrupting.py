"""Computes the disruption commands that a simulated cluster would get."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tenon.disruption.deciding import decide
from tenon.disruption.model import Situation, policy_of
from tenon.scheduling.model import InstanceType, Plan
from tenon.simulation.decisions import price_of
from tenon.simulation.document import Document
from worker.cache.cluster import ClusterCache
from worker.cache.planning_view import PlanningView


def disruption_of(
    view: PlanningView, cache: ClusterCache, plan: Plan, types: Sequence[InstanceType], now: datetime
) -> list[Document]:
    """Return the nodes that would be disrupted now, within budgets. Nodes that the plan gives pods are excluded."""
    managed = view.managed_nodes()
    nodes = {node.claim: cache.node_of(claim) for node in managed if (claim := cache.claims.get(node.claim))}
    used = {claim for claim, node in nodes.items() if node is not None and plan.placements.get(node.name)}
    policies = {pool.metadata.name: policy_of(pool) for pool in view.node_pools()}
    decision = decide(Situation(managed, policies, now, under_command=frozenset(used)))
    for error in decision.failed.values():
        raise error
    entries: list[Document] = []
    for command in decision.commands:
        for candidate in command.candidates:
            node = nodes[candidate.node.claim]
            if node is not None and candidate.leaves_at <= now:
                entries.append(
                    {
                        "reason": command.reason.value,
                        "method": command.method,
                        "candidates": [node.name],
                        "replacements": [],
                        "savingPerHour": round(price_of(node.labels, types), 6),
                    }
                )
    return entries
