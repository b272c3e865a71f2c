"""What the sandbox does to a node's workflow by the NodeClaim's name, on a real Temporal server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from sandbox.cluster import Sandbox
from sandbox.errors import SandboxError
from sandbox.faults import catalogue
from sandbox.layout import Layout
from sandbox.status import Addresses
from workflows.names import nodeclaim_id

pytestmark = pytest.mark.integration


@workflow.defn(sandboxed=False)
class Node:
    """A node's life as far as it matters here: it rests until it is told to go on."""

    def __init__(self) -> None:
        self.pokes = 0

    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: self.pokes == 2)

    @workflow.update
    async def poke(self) -> int:
        self.pokes += 1
        return self.pokes


@pytest.fixture
def sandbox_of(temporal: WorkflowEnvironment, tmp_path: Path, cluster: str) -> Sandbox:
    """A sandbox of which only Temporal runs."""
    address = temporal.client.service_client.config.target_host
    sandbox = Sandbox(Layout.at(tmp_path), Addresses(kubernetes="k", temporal=address, temporal_ui="u"))
    sandbox.cluster_name = cluster
    return sandbox


async def started(temporal: WorkflowEnvironment, sandbox: Sandbox) -> WorkflowHandle[Any, Any]:
    name = nodeclaim_id(sandbox.cluster_name, "default-abc")
    return await temporal.client.start_workflow(Node.run, id=name, task_queue=sandbox.cluster_name)


async def make(sandbox: Sandbox, name: str, **options: Any) -> list[dict[str, Any]]:
    return await asyncio.to_thread(catalogue.apply, sandbox, name, claim="default-abc", **options)


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("workflow-terminated", WorkflowExecutionStatus.TERMINATED),
        ("workflow-cancelled", WorkflowExecutionStatus.CANCELED),
    ],
)
async def test_a_nodes_workflow_is_ended(
    temporal: WorkflowEnvironment, sandbox_of: Sandbox, name: str, status: WorkflowExecutionStatus
) -> None:
    async with Worker(temporal.client, task_queue=sandbox_of.cluster_name, workflows=[Node]):
        handle = await started(temporal, sandbox_of)
        (done,) = await make(sandbox_of, name)
        assert done == {"workflow": handle.id, "run": handle.first_execution_run_id}
        with pytest.raises(WorkflowFailureError):
            await handle.result()
        assert (await handle.describe()).status is status


async def test_a_nodes_workflow_is_reset_and_lives_on_in_another_run(
    temporal: WorkflowEnvironment, sandbox_of: Sandbox
) -> None:
    async with Worker(temporal.client, task_queue=sandbox_of.cluster_name, workflows=[Node]):
        handle = await started(temporal, sandbox_of)
        assert await handle.execute_update(Node.poke) == 1
        await make(sandbox_of, "workflow-reset", task=-1)
        again = temporal.client.get_workflow_handle(handle.id)
        description = await again.describe()
        assert description.status is WorkflowExecutionStatus.RUNNING
        assert description.run_id != handle.first_execution_run_id
        with pytest.raises(SandboxError, match="there is no 99"):
            await make(sandbox_of, "workflow-reset", task=99)
        await again.terminate()


async def test_a_claim_without_a_workflow_is_reported(sandbox_of: Sandbox) -> None:
    with pytest.raises(SandboxError, match="default-abc could not be changed"):
        await make(sandbox_of, "workflow-terminated")
