"""A disruption command whose node leaves before its replacement starts, on a real Temporal server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from temporalio import workflow
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import WorkflowHandle
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from tenon.evolve import evolve
from tenon.messages.awaited_replacements import FoundReplacements
from tenon.messages.command_steps import DisruptInput
from tenon.messages.disruption import AwaitedReport, DisruptResult
from tests.workflows.fake_steps import NOW, FakeSteps, leaves_first
from tests.workflows.waiting import until
from workflows import continuing, names
from workflows.disruption_command import DisruptionCommandWorkflow

pytestmark = pytest.mark.integration

Handle = WorkflowHandle[DisruptionCommandWorkflow, DisruptResult]
COMMAND = leaves_first()
LEAVING = FoundReplacements(leaving=["default-1"])
WAITING = FoundReplacements(waiting_pods=2)
STARTING = FoundReplacements(starting={"default-2": "waits for its Node"}, waiting_pods=2)
RUNNING = FoundReplacements(running=["default-2"])


def finding(*finds: FoundReplacements) -> FakeSteps:
    """What each look finds; the last one again and again."""
    steps = FakeSteps()
    steps.finds = list(finds)
    return steps


@asynccontextmanager
async def running(
    temporal: WorkflowEnvironment, cluster: str, steps: FakeSteps, begin: DisruptInput | None = None
) -> AsyncIterator[Handle]:
    queue = names.task_queue(cluster)
    common = Worker(temporal.client, task_queue=queue, workflows=[DisruptionCommandWorkflow], activities=steps.common())
    planner = Worker(temporal.client, task_queue=names.plan_queue(cluster), activities=[steps.validate, steps.measure])
    async with common, planner:
        yield await temporal.client.start_workflow(
            DisruptionCommandWorkflow.run,
            begin or DisruptInput(cluster=cluster, command=COMMAND),
            id=names.command_id(cluster, COMMAND.id),
            task_queue=queue,
        )


async def signals_of(handle: Handle) -> list[tuple[str, bytes]]:
    events = (await handle.fetch_history()).events
    attributes = [event.signal_external_workflow_execution_initiated_event_attributes for event in events]
    return [(signal.signal_name, signal.input.payloads[0].data) for signal in attributes if signal.signal_name]


async def page_of(handle: Handle) -> str:
    page = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
    return str(page.current_details)


async def test_n15_191_a_command_stays_open_until_what_replaces_its_node_runs(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """It asks for budgets to count the node, while it leaves and when it is gone, and then no more."""
    steps = finding(LEAVING, WAITING, STARTING, RUNNING)
    async with running(temporal, cluster, steps) as handle:
        result = await handle.result()
        signals = await signals_of(handle)
        page = await page_of(handle)
    assert steps.calls == [
        "validate command",
        "taint candidates",
        "check candidates",
        "disrupt nodes",
        "finish command",
        *["find replacements"] * 4,
        "settle replacements",
    ]
    assert (result.accepted, result.replaced_by, result.saving) == (["default-1"], ["default-2"], None)
    assert result.replacement.startswith("NodeClaim default-2 replaced it")
    assert [name for name, _ in signals] == ["awaits_replacement", "awaits_replacement", "replaced"]
    reports = [AwaitedReport.model_validate_json(data) for name, data in signals if name == "awaits_replacement"]
    assert [(report.pools, report.candidates_gone) for report in reports] == [
        ({"default-1": "default"}, False),
        ({"default-1": "default"}, True),
    ]
    (settled,) = steps.settled
    assert (settled.outcome, settled.claims) == ("replaced", ["default-2"])
    assert "default-1 is gone" in page
    assert "leaves before its replacement starts" in page
    assert result.replacement in page


async def test_n15_191_a_replacement_that_never_comes_ends_the_command_with_a_sentence(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """Budgets count the node for an hour more, so that the NodePool does not lose the next one at once."""
    steps = finding(WAITING)
    async with running(temporal, cluster, steps) as handle:
        result = await handle.result()
        signals = await signals_of(handle)
    assert result.replacement == (
        "no replacement ran within 30m: expected a node of NodePool default in capacity reservation cr-1"
    )
    assert steps.settled[0].outcome == "given_up"
    assert steps.settled[0].seconds >= 1800
    name, data = signals[-1]
    assert (name, AwaitedReport.model_validate_json(data).seconds) == ("awaits_replacement", 3600)


async def test_a_wait_goes_on_where_another_version_of_the_worker_takes_over(
    temporal: WorkflowEnvironment, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may last for days, and the earlier version is removed."""
    monkeypatch.setattr(continuing, "is_for_another_version", lambda: workflow.info().continued_run_id is None)
    steps = finding(LEAVING, LEAVING, RUNNING)
    async with running(temporal, cluster, steps) as handle:
        result = await handle.result()
        first_run = temporal.client.get_workflow_handle(handle.id, run_id=handle.first_execution_run_id)
        ended = (await first_run.fetch_history()).events[-1].workflow_execution_continued_as_new_event_attributes
    assert ended.new_execution_run_id
    assert (result.accepted, result.replaced_by) == (["default-1"], ["default-2"])
    assert steps.calls.count("disrupt nodes") == 1


async def test_n15_191_an_operator_may_end_the_wait(temporal: WorkflowEnvironment, cluster: str) -> None:
    steps = finding(WAITING)
    with temporal.with_time_skipping_disabled():
        async with running(temporal, cluster, steps) as handle:

            async def says_who_waits() -> bool:
                return "2 pods wait for a node" in await page_of(handle)

            await until(says_who_waits)
            await handle.cancel()
            result = await handle.result()
    assert result.replacement == "an operator cancelled it"
    assert result.accepted == ["default-1"]
    assert steps.settled[0].outcome == "cancelled"


async def test_n15_191_a_signal_ends_the_pause_before_the_next_pass(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    steps = finding(LEAVING)
    with temporal.with_time_skipping_disabled():
        async with running(temporal, cluster, steps) as handle:

            async def leaves() -> bool:
                return "is still leaving" in await page_of(handle)

            await until(leaves)
            steps.finds = [RUNNING]
            await handle.signal(DisruptionCommandWorkflow.replacement_changed, "default-1")
            result = await handle.result()
    assert result.replaced_by == ["default-2"]


async def test_n15_191_a_run_that_continues_as_new_goes_on_waiting(temporal: WorkflowEnvironment, cluster: str) -> None:
    """A drain may take days, and a history must not grow without end."""
    steps = finding(RUNNING)
    earlier = evolve(
        DisruptInput(cluster=cluster, command=COMMAND),
        awaited={"since": NOW, "result": {"accepted": ["default-1"]}, "timeline": ["12:00:00 asked 1 nodes to leave"]},
    )
    async with running(temporal, cluster, steps, DisruptInput.model_validate(earlier.model_dump())) as handle:
        result = await handle.result()
        page = await page_of(handle)
    assert steps.calls == ["find replacements", "settle replacements"]
    assert (result.accepted, result.replaced_by) == (["default-1"], ["default-2"])
    assert "asked 1 nodes to leave" in page


async def test_n15_192_a_command_whose_replacement_can_start_first_by_now_starts_it(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    steps = finding(RUNNING)
    steps.instead = evolve(COMMAND, terminate_first=None)
    async with running(temporal, cluster, steps) as handle:
        result = await handle.result()
        signals = [name for name, _ in await signals_of(handle)]
    assert (result.replaced_by, result.replacement) == ([], "")
    assert "find replacements" not in steps.calls
    assert signals == ["replaced"], "budgets count the node as they count every other"


async def test_n15_191_a_node_that_refuses_is_not_awaited(temporal: WorkflowEnvironment, cluster: str) -> None:
    steps = finding(RUNNING)
    steps.refused = {"default-1": "kept until tomorrow"}
    async with running(temporal, cluster, steps) as handle:
        result = await handle.result()
        signals = [name for name, _ in await signals_of(handle)]
    assert result.replacement == ""
    assert "find replacements" not in steps.calls
    assert signals == ["postpone"]
