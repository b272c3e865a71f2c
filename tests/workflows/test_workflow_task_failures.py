"""A workflow whose code fails stands still. The worker counts its failed tasks, so that an alert can find it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from prometheus_client import REGISTRY
from temporalio import workflow
from temporalio.client import WorkflowExecutionStatus
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker
from temporalio.workflow import NondeterminismError

from tests.workflows.waiting import until
from worker.runtime.temporal.temporal_plugin import TenonPlugin

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


@workflow.defn(name="Changed")
class ShortWait:
    @workflow.run
    async def run(self) -> None:
        await workflow.sleep(timedelta(days=1))

    @workflow.signal
    def look(self) -> None:
        """Give the run a task."""


@workflow.defn(name="Changed")
class NoWait:
    """The same workflow in a version with other commands."""

    @workflow.run
    async def run(self) -> None:
        await workflow.execute_activity("other", start_to_close_timeout=timedelta(seconds=1))

    @workflow.signal
    def look(self) -> None:
        """Give the run a task."""


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


@pytest.mark.parametrize("ends_runs", [True, False])
async def test_what_a_version_cannot_replay_is_counted_as_an_ended_run_or_a_failed_task(
    temporal: WorkflowEnvironment, cluster: str, ends_runs: bool
) -> None:
    """Without worker versioning the run ends; with it, the task fails and the run stays. An alert says either."""
    client = await temporal.client.connect(temporal.client.service_client.config.target_host, plugins=[TenonPlugin()])
    counter = "tenon_workflow_runs_ended_total" if ends_runs else COUNTER
    labels = {"workflow": "Changed"}
    before = REGISTRY.get_sample_value(counter, labels) or 0
    async with Worker(client, task_queue=cluster, workflows=[ShortWait]):
        handle = await client.start_workflow("Changed", id=cluster, task_queue=cluster)

        async def waits() -> bool:
            history = await handle.fetch_history()
            return any(event.HasField("timer_started_event_attributes") for event in history.events)

        await until(waits)
    errors = [NondeterminismError] if ends_runs else []
    async with Worker(client, task_queue=cluster, workflows=[NoWait], workflow_failure_exception_types=errors):
        await handle.signal("look")

        async def counted() -> bool:
            return (REGISTRY.get_sample_value(counter, labels) or 0) > before

        async def has_failed() -> bool:
            return (await handle.describe()).status is WorkflowExecutionStatus.FAILED

        await until(counted)
        if ends_runs:
            await until(has_failed)  # the worker counts it before the server has heard of it
        else:
            assert (await handle.describe()).status is WorkflowExecutionStatus.RUNNING
            await handle.terminate()
