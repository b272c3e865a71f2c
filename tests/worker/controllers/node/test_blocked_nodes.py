"""How many nodes of each NodePool need an operator, for alerts, as a real Temporal lists them."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import REGISTRY
from temporalio.common import SearchAttributePair, TypedSearchAttributes
from temporalio.testing import WorkflowEnvironment

from tests.worker.fake_temporal import Cache
from tests.workflows.waiting import until
from worker.controllers.node.blocked_nodes import BlockedNodesController
from workflows import names

pytestmark = pytest.mark.integration


def counted(pool: str) -> float | None:
    return REGISTRY.get_sample_value("tenon_nodeclaims_blocked", {"nodepool": pool})


async def test_blocked_nodes_are_counted_by_nodepool_until_they_are_not(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """Nodes that are well, and those of another cluster, do not count."""
    web, batch, fine = (f"{cluster}-{name}" for name in ("web", "batch", "fine"))

    async def start(name: str, pool: str, *, blocked: bool, of: str = cluster) -> None:
        attributes: list[SearchAttributePair[Any]] = [
            SearchAttributePair(names.CLUSTER, of),
            SearchAttributePair(names.POOL, pool),
            SearchAttributePair(names.BLOCKED, blocked),
        ]
        await temporal.client.start_workflow(
            "NodeClaim",
            id=names.nodeclaim_id(of, name),
            task_queue=f"unserved-{cluster}",
            search_attributes=TypedSearchAttributes(attributes),
        )

    started = [("w-0", web, True), ("w-1", web, True), ("w-2", web, False), ("b-0", batch, True), ("f-0", fine, False)]
    controller = BlockedNodesController(temporal.client, Cache(), cluster)
    with temporal.with_time_skipping_disabled():
        for name, pool, blocked in started:
            await start(name, pool, blocked=blocked)
        await start("w-9", web, blocked=True, of=f"{cluster}-other")

        async def are(*expected: float | None) -> bool:
            await controller.reconcile(())
            return [counted(pool) for pool in (web, batch, fine)] == list(expected)

        await until(lambda: are(2, 1, None))
        for name, _, _ in started:
            await temporal.client.get_workflow_handle(names.nodeclaim_id(cluster, name)).terminate()
        await temporal.client.get_workflow_handle(names.nodeclaim_id(f"{cluster}-other", "w-9")).terminate()
        await until(lambda: are(0, 0, None))
