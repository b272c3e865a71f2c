"""Which nodes of a simulated cluster would be taken away. Only emptiness is decided so far."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from activities.planning.disrupting import policy
from tenon.disruption.emptiness import REASON, empty_nodes
from tenon.scheduling.model import InstanceType, Plan
from tenon.simulation.deciding import price_of
from tenon.simulation.document import Document
from worker.cache.cluster import ClusterCache
from worker.view import CachedView


def empty_nodes_of(
    view: CachedView, cache: ClusterCache, plan: Plan, types: Sequence[InstanceType], now: datetime
) -> list[Document]:
    """The nodes that are empty for long enough at this time, within budgets, and that the plan gives no pod."""
    policies = {pool.metadata.name: policy(pool) for pool in view.node_pools()}
    nodes = {
        node.claim: cache.node_of(claim) for node in view.managed_nodes() if (claim := cache.claims.get(node.claim))
    }
    used = {claim for claim, node in nodes.items() if node is not None and plan.placements.get(node.name)}
    found, _ = empty_nodes(view.managed_nodes(), policies, under_command=frozenset(used), now=now)
    entries: list[Document] = []
    for empty in found:
        node = nodes[empty.node.claim]
        if node is not None and empty.due <= now:
            entries.append(
                {
                    "reason": REASON,
                    "method": "emptiness",
                    "candidates": [node.name],
                    "replacements": [],
                    "savingPerHour": round(price_of(node.labels, types), 6),
                }
            )
    return entries
