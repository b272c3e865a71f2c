"""A workflow whose code fails stands still. The worker counts its failed tasks, so that an alert can find it."""

from __future__ import annotations

import pytest
from prometheus_client import REGISTRY
from temporalio import workflow
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from tests.workflows.waiting import until
from worker.runtime.temporal_plugin import TenonPlugin

pytestmark = pytest.mark.integration

COUNTER = "tenon_workflow_task_failures_total"


@workflow.defn
class Faulty:
    @workflow.run
    async def run(self) -> None:
        raise AssertionError("a fault in the code of the workflow")


@workflow.defn
class Sound:
    @workflow.run
    async def run(self) -> str:
        return "done"


async def test_tasks_that_fail_on_a_fault_are_counted(temporal: WorkflowEnvironment, cluster: str) -> None:
    client = await temporal.client.connect(temporal.client.service_client.config.target_host, plugins=[TenonPlugin()])
    async with Worker(client, task_queue=cluster, workflows=[Faulty, Sound]):
        assert await client.execute_workflow("Sound", id=f"{cluster}-sound", task_queue=cluster) == "done"
        faulty = await client.start_workflow("Faulty", id=f"{cluster}-faulty", task_queue=cluster)

        async def counted() -> bool:
            return bool(REGISTRY.get_sample_value(COUNTER, {"workflow": "Faulty"}))

        await until(counted)
        await faulty.terminate()
    assert REGISTRY.get_sample_value(COUNTER, {"workflow": "Sound"}) is None
