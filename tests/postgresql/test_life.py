"""Lives of nodes on a Temporal server with PostgreSQL, and what stays of them; then the database goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from functools import partial

import pytest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client, WorkflowExecutionStatus

from activities.kubernetes.client import Kube
from sandbox.cluster import Sandbox
from sandbox.temporal import DATABASE_COMPONENT
from tests.e2e.conftest import MakePool, NewPool, Run
from tests.e2e.pools import SMALL, fresh_pool
from tests.e2e.worker_process import WorkerProcess
from tests.faults.drills.test_outages import both_unready, ready_again, told
from tests.postgresql.conftest import live_and_end_in
from workflows.names import nodeclaim_id


@pytest.fixture(scope="module")
def worker(sandbox: Sandbox) -> Iterator[WorkerProcess]:
    running = WorkerProcess(sandbox, "life-worker")
    running.start()
    yield running
    assert running.stop() == 0, f"see {running.log}"


@pytest.fixture(scope="module")
def new_pool(worker: WorkerProcess, sandbox: Sandbox, kube: Kube) -> NewPool:
    return partial(fresh_pool, kube, sandbox)


async def test_a_life_runs_to_its_end_and_can_be_read_for_the_retention_that_the_documents_name(
    make_pool: MakePool, sandbox: Sandbox, client: Client, tenon: Run
) -> None:
    """docs/operations.md: `tenon node show` tells of an ended node until 72 hours are over."""
    pool = await make_pool(requirements=SMALL)
    name = await live_and_end_in(pool)
    shown = tenon("node", "show", name)
    assert shown.returncode == 0, shown.stderr
    assert "ended" in shown.stdout
    answer = await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=client.namespace))
    assert answer.config.workflow_execution_retention_ttl.ToTimedelta() == timedelta(hours=72)
    described = await client.get_workflow_handle(nodeclaim_id(sandbox.cluster_name, name)).describe()
    assert described.status is WorkflowExecutionStatus.COMPLETED


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
async def test_the_database_goes_away_and_comes_back(
    make_pool: MakePool, sandbox: Sandbox, worker: WorkerProcess, kill: bool
) -> None:
    """Temporal answers nothing meanwhile. Live nodes stay, and pods that came get their node afterwards."""
    pool = await make_pool(requirements=SMALL, consolidate_after="60s")
    await pool.deploy(1)
    (pod,) = await pool.running(1)
    (claim,) = await pool.settled(1)
    before = told(worker, "Temporal")
    await asyncio.to_thread(sandbox.stop_component, DATABASE_COMPONENT, kill=kill)
    try:
        await pool.deploy(1, "late")
        await both_unready(sandbox, worker, "Temporal", before)
    finally:
        await asyncio.to_thread(sandbox.start_component, DATABASE_COMPONENT)
    await ready_again(sandbox)
    assert worker.running
    await pool.running(1, "late")
    assert {pod["metadata"]["uid"] for pod in await pool.pods("web")} == {pod["metadata"]["uid"]}
    assert claim["metadata"]["name"] in {item["metadata"]["name"] for item in await pool.settled(2)}
    assert len(pool.instances()) == 2
