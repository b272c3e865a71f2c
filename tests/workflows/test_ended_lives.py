"""The bridge and a life that has come to its end, on a real Temporal server."""

from __future__ import annotations

import pytest
from temporalio.testing import WorkflowEnvironment

from tests.worker.cache.objects import claim
from tests.worker.fake_temporal import LEAVING, Cache
from tests.workflows.fake_activities import FakeWorld
from tests.workflows.node_workers import served
from worker.controllers.node.nodeclaim_workflows import NodeClaimWorkflowController
from workflows import names

pytestmark = pytest.mark.integration


async def test_a_life_that_ended_stays_ended(temporal: WorkflowEnvironment, cluster: str) -> None:
    """A bridge that begins with a late cache sees a claim that leaves, and no open workflow of it."""
    cache = Cache()
    cache.publish(claim("a", node_name="a", meta=LEAVING))
    client, workflow_id = temporal.client, names.nodeclaim_id(cluster, "a")
    handle = client.get_workflow_handle(workflow_id)
    async with served(client, cluster, FakeWorld(exists=False)):
        await NodeClaimWorkflowController(client, cache, cluster)._reconcile_claim("a")
        await handle.result()
        first = (await handle.describe()).run_id
        await NodeClaimWorkflowController(client, cache, cluster)._reconcile_claim("a")
        assert (await handle.describe()).run_id == first


async def test_a_claim_of_a_name_that_had_a_life_gets_one(temporal: WorkflowEnvironment, cluster: str) -> None:
    cache = Cache()
    client, workflow_id = temporal.client, names.nodeclaim_id(cluster, "a")
    handle = client.get_workflow_handle(workflow_id)
    runs = []
    async with served(client, cluster, FakeWorld(exists=False)):
        for uid in ("one", "another"):
            cache.publish(claim("a", node_name="a", meta={**LEAVING, "uid": uid}))
            await NodeClaimWorkflowController(client, cache, cluster)._reconcile_claim("a")
            await handle.result()
            runs.append((await handle.describe()).run_id)
    assert len(set(runs)) == 2


async def test_a_life_that_an_operator_terminated_begins_again(temporal: WorkflowEnvironment, cluster: str) -> None:
    cache = Cache()
    cache.publish(claim("a", node_name="a", meta=LEAVING))
    client, workflow_id = temporal.client, names.nodeclaim_id(cluster, "a")
    handle = client.get_workflow_handle(workflow_id)
    await NodeClaimWorkflowController(client, cache, cluster)._reconcile_claim("a")  # no worker serves it yet
    await handle.terminate()
    await NodeClaimWorkflowController(client, cache, cluster)._reconcile_claim("a")
    async with served(client, cluster, FakeWorld(exists=False)):
        assert (await handle.result())["claim"] == "a"
