"""What the record says of commands and of lives that end, on a real Temporal server, in Temporal's sandbox."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from datetime import timedelta

import pytest
from prometheus_client import REGISTRY
from temporalio.client import WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from tenon.apis.reasons import Reason
from tenon.evolve import evolve
from tenon.messages.base import ActivityName
from tenon.messages.command_approval import AwaitsApproval
from tenon.messages.command_steps import DisruptInput
from tenon.messages.disruption import (
    DisruptionCommand,
    DisruptResult,
    MeasuredSaving,
    Replacement,
)
from tenon.messages.node import Operator
from tenon.messages.node_steps import DrainResult
from tenon.record.entries import CommandEndEntry, CommandEntry, RemovalEntry
from tests.activities.record.kept import KeptRecord
from tests.workflows.fake_activities import FakeWorld
from tests.workflows.fake_steps import FakeSteps, command
from tests.workflows.guarded_node import GUARDED
from tests.workflows.node_workflow import live, node
from worker.runtime.temporal.measured_workflows import MeasureInterceptor
from worker.runtime.temporal.recorded_workflows import RecordInterceptor
from workflows import names
from workflows.disruption_command import DisruptionCommandWorkflow

pytestmark = pytest.mark.integration

Handle = WorkflowHandle[DisruptionCommandWorkflow, DisruptResult]


@asynccontextmanager
async def running(
    temporal: WorkflowEnvironment,
    cluster: str,
    steps: FakeSteps,
    disruption_command: DisruptionCommand,
    record: KeptRecord,
    *,
    skip_time: bool = True,
) -> AsyncIterator[Handle]:
    queue = names.task_queue(cluster)
    common = Worker(
        temporal.client,
        task_queue=queue,
        workflows=[DisruptionCommandWorkflow],
        activities=steps.common(),
        interceptors=[RecordInterceptor(record), MeasureInterceptor()],
        max_cached_workflows=0,  # each task replays, and must not record again what an earlier one recorded
    )
    planner = Worker(temporal.client, task_queue=names.plan_queue(cluster), activities=[steps.validate, steps.measure])
    async with common, planner:
        with nullcontext() if skip_time else temporal.with_time_skipping_disabled():
            handle = await temporal.client.start_workflow(
                DisruptionCommandWorkflow.run,
                DisruptInput(cluster=cluster, command=disruption_command),
                id=names.command_id(cluster, disruption_command.id),
                task_queue=queue,
            )
        yield handle


def both(record: KeptRecord) -> tuple[CommandEntry, CommandEndEntry]:
    begin, end = record.entries
    assert isinstance(begin, CommandEntry)
    assert isinstance(end, CommandEndEntry)
    return begin, end


async def test_a_command_is_recorded_when_it_starts_and_when_it_has_ended(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    record, steps = KeptRecord(), FakeSteps()
    steps.savings = {"default": MeasuredSaving(predicted=0.2, reached=0.15)}
    explained = evolve(command(), explanation=["2 nodes become 1", "m5.large is cheaper"])
    async with running(temporal, cluster, steps, explained, record) as handle:
        await handle.result()
    begin, end = both(record)
    assert (begin.command, begin.reason, begin.workflow) == (explained.id, "Underutilized", handle.id)
    assert [candidate.claim for candidate in begin.candidates] == ["default-1", "default-2"]
    assert [purchase.claim for purchase in begin.replacements] == [r.name for r in explained.replacements]
    assert begin.why == "2 nodes become 1\nm5.large is cheaper"
    assert (end.command, end.accepted, end.failure) == (explained.id, ["default-1", "default-2"], "")
    assert (end.predicted, end.reached) == (0.2, 0.15)
    assert end.replacements == [replacement.name for replacement in explained.replacements]


async def test_a_command_for_empty_nodes_is_recorded_too(temporal: WorkflowEnvironment, cluster: str) -> None:
    record, steps = KeptRecord(), FakeSteps()
    steps.refused = {"default-2": "kept"}
    empty = evolve(command(replacements=0), reason=Reason.EMPTY, moves_pods=False, only_if_empty=True)
    async with running(temporal, cluster, steps, empty, record) as handle:
        await handle.result()
    begin, end = both(record)
    assert begin.reason == end.reason == "Empty"
    assert (end.accepted, end.refused) == (["default-1"], {"default-2": "kept"})


async def test_a_command_that_ends_before_it_touches_anything_is_recorded_with_why(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    record, steps = KeptRecord(), FakeSteps()
    steps.fails[ActivityName.VALIDATE_COMMAND] = "a pod came or went"
    async with running(temporal, cluster, steps, command(), record) as handle:
        await handle.result()
    _, end = both(record)
    assert (end.failure, end.accepted, end.replacements) == ("a pod came or went", [], [])


async def test_a_command_that_takes_other_replacements_ends_with_those(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    record, steps = KeptRecord(), FakeSteps()
    other = Replacement(name="default-other", pool="default", body={})
    steps.instead = evolve(command(), replacements=[other])
    async with running(temporal, cluster, steps, command(replacements=0), record) as handle:
        await handle.result()
    assert both(record)[1].replacements == ["default-other"]


@pytest.mark.parametrize(
    ("answer", "by", "reason"),
    [
        ("approved", "ann", "seen in staging, OPS-12"),
        ("refused", "bob", "release in progress"),
        ("stale", "", "NodeClaim default-1 is gone"),
        ("cancelled", "", "an operator cancelled it: not now"),
        ("unanswered", "", ""),
    ],
)
async def test_the_record_says_who_answered_a_command_that_waited(
    temporal: WorkflowEnvironment, cluster: str, answer: str, by: str, reason: str
) -> None:
    record, steps = KeptRecord(), FakeSteps()
    asking_command = evolve(command(graceful=False), approval=AwaitsApproval(seconds=3600))
    skip_time = answer == "unanswered"  # the server may skip the hour before any other answer comes
    async with running(temporal, cluster, steps, asking_command, record, skip_time=skip_time) as handle:
        match answer:
            case "approved":
                await handle.execute_update("approve", Operator(by=by, reason="seen in staging", ticket="OPS-12"))
            case "refused":
                await handle.execute_update("refuse", {"by": by, "reason": reason})
            case "stale":
                await handle.signal("withdraw", reason)
            case "cancelled":
                await handle.cancel(reason="not now")
        await handle.result()
    begin, end = both(record)
    assert begin.approve_until == begin.at + timedelta(hours=1)
    assert end.approval is not None
    assert (end.approval.answer, end.approval.by, end.approval.reason) == (answer, by, reason)
    assert begin.at <= end.approval.at <= end.at
    assert end.approval.seconds == pytest.approx((end.approval.at - begin.at).total_seconds(), abs=60)
    assert (end.approval.seconds >= 3600) == (answer == "unanswered")
    counted = {"nodepool": "default", "reason": "underutilized", "answer": answer}
    assert (REGISTRY.get_sample_value("tenon_disruption_approval_wait_seconds_count", counted) or 0) >= 1


async def test_a_command_whose_workflow_fails_is_recorded_with_the_failure(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    record, steps = KeptRecord(), FakeSteps()
    steps.fails[ActivityName.FINISH_COMMAND] = ApplicationError("the API server is gone", non_retryable=True)
    async with running(temporal, cluster, steps, command(), record) as handle:
        with pytest.raises(WorkflowFailureError):
            await handle.result()
    assert both(record)[1].failure


async def test_a_node_whose_life_ended_is_recorded_with_who_removed_it_and_why(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    record, world = KeptRecord(), FakeWorld()
    recorder = RecordInterceptor(record)
    async with node(temporal, cluster, world, skip_time=False, interceptors=[recorder], max_cached_workflows=0):
        handle = await live(temporal.client, cluster)
        await handle.signal("force_drain", Operator(by="ann", reason="the disk is broken", ticket="OPS-1"))
        await temporal.fast_forward(handle)
        result = await handle.result()
    (entry,) = record.entries
    assert isinstance(entry, RemovalEntry)
    assert (entry.cluster, entry.workflow, entry.facts.claim) == (cluster, handle.id, result.claim)
    assert "ann" in entry.actor
    assert "the disk is broken" in entry.detail
    assert entry.facts.instance == result.instance_id
    assert entry.cost == result.cost
    assert entry.timeline[-1].endswith("life ended")
    assert entry.asked_at is not None
    assert entry.terminated_at is not None


async def test_the_end_of_a_life_says_what_its_drain_waited_for(temporal: WorkflowEnvironment, cluster: str) -> None:
    record, world = KeptRecord(), FakeWorld()
    world.drains = [DrainResult(remaining=1, blocked=[GUARDED])]
    recorder = RecordInterceptor(record)
    async with node(temporal, cluster, world, skip_time=False, interceptors=[recorder], max_cached_workflows=0):
        handle = await live(temporal.client, cluster)
        await handle.signal("drain", Operator(by="ann", reason="the disk is slow"))
        await temporal.fast_forward(handle)
        await handle.result()
    (entry,) = record.entries
    assert isinstance(entry, RemovalEntry)
    (wait,) = entry.blocked_by
    assert (wait.cause, wait.pods, wait.pod_count) == ("PodDisruptionBudget default/web", ["default/web-0"], 1)
    assert wait.seconds > 0
