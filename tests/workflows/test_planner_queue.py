"""Whom the provisioner and the disruption workflow ask, when leaders come, go and vanish; on a real Temporal server."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio
from temporalio import activity
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHandle
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from tenon.evolve import evolve
from tenon.messages.base import POLL_SECONDS, QUIET_POLL_SECONDS, ActivityName
from tenon.messages.command_steps import DisruptInput
from tenon.messages.disruption import (
    AwaitDisruptionInput,
    DisruptionCandidate,
    DisruptionCommand,
    DisruptionDecision,
    DisruptResult,
    LastConsidered,
    MeasuredSaving,
    OpenCommand,
    PassCursor,
    PoolSavings,
    Postponement,
    SavingReport,
    StepResult,
)
from tenon.messages.provisioning import AwaitBatchInput, BatchSummary, PlanInput, PlanResult
from tests.workflows.waiting import until
from workflows import names
from workflows.disruption import DisruptionInput, DisruptionWorkflow
from workflows.disruption_command import DisruptionCommandWorkflow
from workflows.provisioner import ProvisionerInput, ProvisionerWorkflow

pytestmark = pytest.mark.integration

NOW = datetime(2026, 3, 1, tzinfo=UTC)


class Leader:
    """A planner that answers each question when it is told to; ``asked`` holds the names of the questions."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.pods: asyncio.Queue[int] = asyncio.Queue()
        self.plans = True
        self.validates = True
        self.batches: list[int] = []
        self.decisions: list[DisruptionDecision] = []
        self.ledgers: list[dict[str, OpenCommand]] = []
        self.waits: list[float] = []
        self.savings: list[dict[str, PoolSavings]] = []
        self.cursors: list[PassCursor] = []

    @activity.defn(name=ActivityName.AWAIT_BATCH)
    async def await_batch(self, await_batch_input: AwaitBatchInput) -> BatchSummary:
        self.requests.append("batch")
        return BatchSummary(pods=await self.pods.get())

    @activity.defn(name=ActivityName.PLAN)
    async def plan(self, plan_input: PlanInput) -> PlanResult:
        self.requests.append("plan")
        if not self.plans:
            await asyncio.Event().wait()
        self.batches.append(plan_input.batch)
        return PlanResult(batch=plan_input.batch, claims=["default-abcdef"])

    @activity.defn(name=ActivityName.VALIDATE_COMMAND)
    async def validate(self, disrupt_input: DisruptInput) -> StepResult:
        self.requests.append("validate")
        if not self.validates:
            await asyncio.Event().wait()
        return StepResult(failure="a pod came or went")

    @activity.defn(name=ActivityName.AWAIT_DISRUPTION)
    async def await_disruption(self, await_disruption_input: AwaitDisruptionInput) -> DisruptionDecision:
        self.requests.append("disruption")
        self.waits.append(await_disruption_input.wait_seconds)
        self.ledgers.append(await_disruption_input.ledger)
        self.savings.append(await_disruption_input.savings)
        self.cursors.append(await_disruption_input.cursor)
        if self.decisions:
            return self.decisions.pop(0)
        await asyncio.Event().wait()
        raise AssertionError("nobody sets the event")

    async def is_asked(self, subject: str, times: int = 1) -> None:
        async def asked() -> bool:
            return self.requests.count(subject) >= times

        await until(asked)


class Cluster:
    """The two workflows, and leaders that serve queues."""

    def __init__(self, temporal: WorkflowEnvironment, name: str, stack: AsyncExitStack) -> None:
        self._client = temporal.client
        self._stack = stack
        self.name = name

    async def leader(self, *queues: str, validates: bool = True) -> Leader:
        """A leader that polls these queues until the test ends.

        ``validates``: whether it answers commands. One that it does not answer goes on, and tells nobody anything.
        """
        leader = Leader()
        leader.validates = validates
        for queue in queues:
            activities: list[Any] = [leader.await_batch, leader.plan, leader.await_disruption, leader.validate]
            await self._stack.enter_async_context(
                Worker(self._client, task_queue=queue, activities=activities, graceful_shutdown_timeout=timedelta())
            )
        return leader

    @property
    def shared(self) -> str:
        return names.plan_queue(self.name)

    def own(self, leader: str) -> str:
        return names.leader_queue(self.name, leader)

    async def provisioner(self, **value: Any) -> WorkflowHandle[Any, None]:
        return await self._client.start_workflow(
            ProvisionerWorkflow.run,
            ProvisionerInput(cluster=self.name, **value),
            id=names.provisioner_id(self.name),
            task_queue=names.task_queue(self.name),
        )

    async def disruption(self, **value: Any) -> WorkflowHandle[Any, None]:
        return await self._client.start_workflow(
            DisruptionWorkflow.run,
            DisruptionInput(cluster=self.name, **value),
            id=names.disruption_id(self.name),
            task_queue=names.task_queue(self.name),
        )

    def command(self, ident: str) -> WorkflowHandle[Any, DisruptResult]:
        ident = names.command_id(self.name, ident)
        return self._client.get_workflow_handle_for(DisruptionCommandWorkflow.run, ident)

    async def announce(self, workflow: WorkflowHandle[Any, None], leader: str) -> None:
        """What a leader sends."""
        await workflow.signal("planner_started", self.own(leader))


@pytest_asyncio.fixture
async def served(temporal: WorkflowEnvironment, cluster: str) -> AsyncIterator[Cluster]:
    async with AsyncExitStack() as stack:
        workflows = [ProvisionerWorkflow, DisruptionWorkflow, DisruptionCommandWorkflow]
        await stack.enter_async_context(
            Worker(temporal.client, task_queue=names.task_queue(cluster), workflows=workflows)
        )
        yield Cluster(temporal, cluster, stack)


@asynccontextmanager
async def ended(*workflows: WorkflowHandle[Any, None]) -> AsyncIterator[None]:
    """They serve for ever, unless somebody ends them."""
    try:
        yield
    finally:
        for workflow in workflows:
            await workflow.terminate()


async def test_a_new_leader_gets_calls_although_a_lost_machine_still_polls(served: Cluster) -> None:
    """Temporal keeps the polls of a machine that lost its power for a minute; the question must not go to them."""
    lost = await served.leader(served.shared, served.own("lost"))
    provisioner, disruption = await served.provisioner(), await served.disruption()
    async with ended(provisioner, disruption):
        await lost.is_asked("batch")
        await lost.is_asked("disruption")
        leader = await served.leader(served.own("new"))  # whatever goes to the shared queue, the lost machine takes
        for item in (provisioner, disruption):
            await served.announce(item, "new")
        await leader.is_asked("batch")
        await leader.is_asked("disruption")
        leader.pods.put_nowait(3)
        await leader.is_asked("plan")
        await leader.is_asked("batch", 2)


async def test_a_leader_that_vanishes_in_the_middle_of_a_plan_does_not_hold_it(served: Cluster) -> None:
    """The same batch is put to the new leader, so that NodeClaims which were written already are found by it."""
    lost = await served.leader(served.shared, served.own("lost"))
    lost.plans = False
    # An announcement would cancel the first question, and with it an answer.
    provisioner = await served.provisioner(plan_queue=served.own("lost"))
    async with ended(provisioner):
        await lost.is_asked("batch")
        lost.pods.put_nowait(3)
        await lost.is_asked("plan")
        leader = await served.leader(served.own("new"))
        await served.announce(provisioner, "new")
        await leader.is_asked("plan")
        await leader.is_asked("batch")
        last = await provisioner.query(ProvisionerWorkflow.last)
        assert last is not None
        assert leader.batches == [last.batch]


async def test_the_validation_of_a_command_moves_to_a_new_leader(served: Cluster) -> None:
    """Whatever goes to the shared queue, the lost machine takes, and the command would wait for a minute."""
    lost = await served.leader(served.shared, served.own("lost"), validates=False)
    candidate = DisruptionCandidate(claim="default-1", uid="u1", pool="default", since=NOW)
    command = DisruptionCommand(
        id="drifted-1", reason="Drifted", candidates=[candidate], moves_pods=True, graceful=False
    )
    lost.decisions.append(DisruptionDecision(commands=[command]))
    # An announcement would cancel the first question, and with it the answer that holds the command.
    disruption = await served.disruption(plan_queue=served.own("lost"))
    async with ended(disruption):
        await lost.is_asked("validate")
        new = await served.leader(served.own("new"))
        await served.announce(disruption, "new")
        await new.is_asked("validate")
        result = await served.command("drifted-1").result()
        assert result.failure == "a pod came or went"


async def test_a_workflow_that_knows_no_leader_asks_on_the_queue_that_all_serve(served: Cluster) -> None:
    leader = await served.leader(served.shared)
    provisioner = await served.provisioner()
    async with ended(provisioner):
        await leader.is_asked("batch")


async def test_a_workflow_that_is_started_again_knows_the_leader_by_its_input(served: Cluster) -> None:
    """An operator ended the one before; the bridge of the leader starts the next."""
    await served.leader(served.shared)
    leader = await served.leader(served.own("a"))
    provisioner = await served.provisioner(plan_queue=served.own("a"))
    async with ended(provisioner):
        await leader.is_asked("batch")


async def test_the_leader_stays_known_when_the_history_is_folded(served: Cluster) -> None:
    """After some 500 events a run continues as new; the next one asks the same leader at once."""
    leader = await served.leader(served.own("a"))
    provisioner = await served.provisioner()
    async with ended(provisioner):
        await served.announce(provisioner, "a")
        first = (await provisioner.describe()).run_id

        async def folded() -> bool:
            if leader.pods.empty():
                leader.pods.put_nowait(1)
            return (await provisioner.describe()).run_id != first

        await until(folded)
        count = leader.requests.count("batch")
        leader.pods.put_nowait(1)
        await leader.is_asked("batch", count + 1)
        scheduled = [
            event.activity_task_scheduled_event_attributes.task_queue.name
            async for event in provisioner.fetch_history_events()
            if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
        ]
        assert set(scheduled) <= {served.shared, served.own("a")}


def moving_command() -> DisruptionCommand:
    """A command for the nodes ``a`` and ``b``, whose pods move to ``host``."""
    candidate = DisruptionCandidate(claim="a", uid="u", pool="default", since=NOW)
    return DisruptionCommand(
        id="drifted-1",
        reason="Drifted",
        candidates=[candidate, evolve(candidate, claim="b")],
        moves_pods=True,
        arrivals={"host": {"0a0b0c0d": 1}},
    )


async def test_the_planner_hears_at_once_of_a_command_that_failed(served: Cluster) -> None:
    """Otherwise it takes the node for one that leaves as long as its question is open, which is up to ten minutes."""
    leader = await served.leader(served.shared, validates=False)
    leader.decisions.append(DisruptionDecision(commands=[moving_command()]))
    disruption = await served.disruption()
    async with ended(disruption):
        await leader.is_asked("disruption", 2)
        await disruption.signal(DisruptionWorkflow.postpone, Postponement(claims=["a"], seconds=300))
        await leader.is_asked("disruption", 3)
    assert [open_commands["a"].postponed for open_commands in leader.ledgers[1:]] == [False, True]
    assert [leader.ledgers[1][claim].hosts for claim in ("a", "b")] == [["host"], []]
    assert leader.waits == [QUIET_POLL_SECONDS, POLL_SECONDS, POLL_SECONDS], "open commands end with time"


async def test_dis62_the_planner_knows_where_pods_move_after_a_candidate_is_gone(served: Cluster) -> None:
    leader = await served.leader(served.shared, validates=False)
    leader.decisions.append(DisruptionDecision(commands=[moving_command()]))
    leader.decisions.append(DisruptionDecision(finished_claims=["a"]))
    disruption = await served.disruption()
    async with ended(disruption):
        await leader.is_asked("disruption", 3)
    assert {claim: entry.hosts for claim, entry in leader.ledgers[2].items()} == {"b": ["host"]}


async def test_wsh01_the_planner_hears_at_once_that_a_command_saved_less_than_predicted(served: Cluster) -> None:
    """And that a later one paid again. A later run of the workflow still knows."""
    leader = await served.leader(served.shared)
    disruption = await served.disruption()
    poor, good = MeasuredSaving(predicted=0.2, reached=0.05), MeasuredSaving(predicted=0.2, reached=0.2)

    async def reports(number: int, saving: MeasuredSaving) -> None:
        report = SavingReport(
            command=f"c{number}", started=datetime(2100, 1, number, tzinfo=UTC), pools={"web": saving}
        )
        await disruption.signal(DisruptionWorkflow.saved, report)
        await leader.is_asked("disruption", number + 1)

    async with ended(disruption):
        await leader.is_asked("disruption")
        await reports(1, poor)
        await reports(2, poor)
        await reports(3, good)
        await disruption.signal(
            DisruptionWorkflow.saved, SavingReport(command="c4", started=NOW, pools={"web": good, "batch": good})
        )
        await reports(4, poor)
    assert [{pool: saving.short for pool, saving in saving.items()} for saving in leader.savings] == [
        {},
        {"web": 1},
        {"web": 2},
        {},
        {"web": 1},
    ]


async def test_the_workflow_remembers_where_consolidation_looks_next(served: Cluster) -> None:
    """So that a new leader goes on there. An answer that does not say it changes nothing, nor does a new run."""
    leader = await served.leader(served.shared)
    begun = PassCursor(last={"web": LastConsidered(price_per_cost=0.1, claim="web-a")}, more=True)
    later = PassCursor(last={"web": LastConsidered(price_per_cost=0.05, claim="web-b")}, more=True, most=500)
    leader.decisions += [DisruptionDecision(cursor=begun), DisruptionDecision(), DisruptionDecision(cursor=later)]
    # a run continues as new at 500 events
    leader.decisions += [DisruptionDecision() for _ in range(100)]
    disruption = await served.disruption()
    first = disruption.first_execution_run_id
    async with ended(disruption):
        await leader.is_asked("disruption", 104)
        assert (await disruption.describe()).run_id != first
    assert leader.cursors == [PassCursor(), begun, begun, *[later] * 101]


async def test_a_command_can_be_searched_for_by_its_cluster_and_its_reason(
    served: Cluster, temporal: WorkflowEnvironment
) -> None:
    leader = await served.leader(served.shared, validates=False)
    candidate = DisruptionCandidate(claim="a", uid="u", pool="default", since=NOW)
    command = DisruptionCommand(id="drifted-2", reason="Drifted", candidates=[candidate], moves_pods=True)
    leader.decisions.append(DisruptionDecision(commands=[command]))
    disruption = await served.disruption()
    async with ended(disruption):
        await leader.is_asked("disruption", 2)
        handle = temporal.client.get_workflow_handle(names.command_id(served.name, command.id))
        attributes = (await handle.describe()).typed_search_attributes
        assert (attributes.get(names.CLUSTER), attributes.get(names.REASON)) == (served.name, "Drifted")
        await handle.terminate()


@pytest.mark.asyncio_lines
async def test_a_command_that_an_operator_terminates_leaves_no_error_in_the_log(
    served: Cluster, temporal: WorkflowEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    """asyncio logs an exception that nothing has read: here, how the command's workflow ended."""
    gc.collect()  # of earlier tests
    await asyncio.sleep(0)
    caplog.clear()
    leader = await served.leader(served.shared, validates=False)
    candidate = DisruptionCandidate(claim="a", uid="u", pool="default", since=NOW)
    command = DisruptionCommand(id="drifted-1", reason="Drifted", candidates=[candidate], moves_pods=True)
    leader.decisions.append(DisruptionDecision(commands=[command]))
    disruption = await served.disruption()
    async with ended(disruption):
        await leader.is_asked("disruption", 2)
        await temporal.client.get_workflow_handle(names.command_id(served.name, command.id)).terminate()

        async def noticed() -> bool:
            kinds = [event.event_type async for event in disruption.fetch_history_events()]
            ended = EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TERMINATED
            return ended in kinds and EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED in kinds[kinds.index(ended) :]

        await until(noticed)
        gc.collect()
    assert [entry.message for entry in caplog.records if "never retrieved" in entry.message] == []
