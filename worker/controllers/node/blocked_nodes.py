"""Counts the nodes that need an operator, by NodePool, for alerts.

Only the workflows know that they are blocked. A count that a sweep takes would be as old as the last sweep, and each
replica would keep the count of its own last sweep.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from temporalio.client import Client

from activities import metrics
from activities.reported_gauges import report
from worker.cache.changes import Change
from worker.cache.cluster import ClusterCache
from worker.controllers.base import Controller
from worker.controllers.workflow_start import ANSWER_WITHIN
from workflows import names

MOST = 1000
"""How many blocked nodes are counted. An alert says the same about more."""


class BlockedNodesController(Controller):
    """Asks Temporal once a minute which NodeClaim workflows are blocked."""

    name = "nodeclaim.blocked"
    topics = ()
    resync = 60.0

    def __init__(self, client: Client, cache: ClusterCache, cluster: str) -> None:
        super().__init__(cache)
        self._client = client
        self._query = names.blocked_nodeclaims_query(cluster)

    async def reconcile(self, changes: Sequence[Change]) -> float | None:  # noqa: ARG002
        """Set the gauge of every NodePool that has blocked nodes."""
        blocked: Counter[str] = Counter()
        async for workflow in self._client.list_workflows(self._query, limit=MOST, rpc_timeout=ANSWER_WITHIN):
            blocked[workflow.typed_search_attributes.get(names.POOL) or ""] += 1
        report(metrics.BLOCKED_CLAIMS, {(pool,): count for pool, count in blocked.items()})
        return None
