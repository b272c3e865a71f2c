"""Runs of the cluster's own workflows that the replay corpus holds, with activities that a scenario answers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from temporalio import activity
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import Client, Schedule, ScheduleActionStartWorkflow, ScheduleSpec, WorkflowHandle
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from tenon.apis.reasons import Reason
from tenon.evolve import evolve
from tenon.kube.pool_reasons import ObstacleKind
from tenon.messages.awaited_replacements import FoundReplacements
from tenon.messages.base import ActivityName
from tenon.messages.command_approval import AwaitsApproval, Refusal
from tenon.messages.disruption import (
    AwaitDisruptionInput,
    DisruptionCommand,
    DisruptionDecision,
    DisruptResult,
    MeasuredSaving,
)
from tenon.messages.forecast import ForecastAnswer
from tenon.messages.garbage_collection import COLLECT_GARBAGE, GarbageCollectionInput, GarbageCollectionResult
from tenon.messages.node import Operator
from tenon.messages.node_schedule import NodeScheduleInput, NodeScheduleResult, ScheduledPool
from tenon.messages.nodeclass import NodeClassInput, NodeClassResult
from tenon.messages.provisioning import AwaitBatchInput, BatchSummary, LaunchReport, PendingClause, PendingPods
from tests.workflows.fake_steps import FakeSteps, command, leaves_first, reboot
from tests.workflows.refusing_ec2 import Planning, provisioner, refusing
from tests.workflows.waiting import until
from workflows import names
from workflows.disruption import DisruptionInput, DisruptionWorkflow
from workflows.disruption_command import DisruptionCommandWorkflow
from workflows.garbage_collection import GarbageCollectionWorkflow, garbage_collection_id, schedule_id
from workflows.node_schedule import NodeScheduleWorkflow
from workflows.nodeclass import REFRESH, NodeClassWorkflow
from workflows.provisioner import MAX_REPORTS, ProvisionerInput, ProvisionerWorkflow


async def batches(temporal: WorkflowEnvironment, cluster: str) -> None:
    """EC2 refuses a NodePool during a wait, a leader announces itself, and the run continues as new between batches.

    A pod fits nowhere in the first batch and gets a place in the next one.
    """
    planning = Planning()
    clause = PendingClause(pool="web", kind=ObstacleKind.TAINTS, text="NodePool web: its taint a is not tolerated")
    planning.pending = [PendingPods(why=clause.text, clauses=[clause], pods=["shop/web-1"], count=1)]

    async def asked(times: int) -> bool:
        return len(planning.requests) >= times

    async with provisioner(temporal, cluster, planning) as handle:
        await until(partial(asked, 1))
        await handle.signal(ProvisionerWorkflow.launches_reported, refusing().report())
        await until(partial(asked, 2))
        await handle.signal(ProvisionerWorkflow.planner_started, names.plan_queue(cluster))
        await until(partial(asked, 3))
        planning.pods.set()
        await until(partial(asked, 4))
        planning.pending = []
        for _ in range(MAX_REPORTS):
            await handle.signal(ProvisionerWorkflow.launches_reported, LaunchReport())
        await until(partial(asked, 5))
        planning.pods.set()
        await until(partial(asked, 6))


class Leader(FakeSteps):
    """A planner whose decisions a scenario gives one after the other. A newer call ends an older one."""

    def __init__(self) -> None:
        super().__init__()
        self.decisions: list[DisruptionDecision] = []
        self.decided = 0

    @activity.defn(name=ActivityName.AWAIT_DISRUPTION)
    async def decide(self, await_disruption_input: AwaitDisruptionInput) -> DisruptionDecision:
        self.decided += 1
        turn = self.decided

        async def over() -> bool:
            return turn != self.decided or bool(self.decisions)

        await until(over)
        return self.decisions.pop(0) if turn == self.decided else DisruptionDecision()


class Commands:
    """Lets the disruption workflow start one command after the other."""

    def __init__(self, client: Client, cluster: str, leader: Leader) -> None:
        self._client, self._cluster, self._leader = client, cluster, leader
        self.disruption = client.get_workflow_handle_for(DisruptionWorkflow.run, names.disruption_id(cluster))

    async def start(
        self, ident: str, disruption_command: DisruptionCommand
    ) -> WorkflowHandle[DisruptionCommandWorkflow, DisruptResult]:
        await self.answer(DisruptionDecision(commands=[evolve(disruption_command, id=ident)]))
        handle = self._client.get_workflow_handle_for(
            DisruptionCommandWorkflow.run, names.command_id(self._cluster, ident)
        )

        async def started() -> bool:
            try:
                await handle.describe()
            except RPCError:
                return False
            return True

        await until(started)
        return handle

    async def answer(self, decision: DisruptionDecision) -> None:
        await until(self._asks)
        self._leader.decisions.append(decision)

    async def _asks(self) -> bool:
        """Whether one call is open, so that its answer counts: the workflow has received all signals before it."""
        await self.disruption.query(DisruptionWorkflow.open_commands)
        calls = (await self.disruption.describe()).raw_description.pending_activities
        return [call.state for call in calls] == [PendingActivityState.PENDING_ACTIVITY_STATE_STARTED]

    async def called(self, step: ActivityName, times: int = 1) -> None:
        async def reached() -> bool:
            return self._leader.calls.count(step.value) >= times

        await until(reached)

    async def continues_as_new(self) -> None:
        """Answer so often that the history becomes long."""
        first = (await self.disruption.describe()).run_id

        async def continued() -> bool:
            if not self._leader.decisions:
                self._leader.decisions += [DisruptionDecision(finished_claims=["default-1"])] * 10
            return (await self.disruption.describe()).run_id != first

        await until(continued)
        self._leader.decisions.clear()


async def leave_first(play: Commands, leader: Leader) -> None:
    """Nodes that leave before their replacements start: one is replaced, and an operator ends the wait of the other."""
    removed = FoundReplacements(waiting_pods=2)
    finds = [FoundReplacements(leaving=["default-1"]), removed, FoundReplacements(running=["default-2"])]
    for ident, ends in (("drifted-1", False), ("drifted-2", True)):
        before = leader.calls.count(ActivityName.FIND_REPLACEMENTS.value)
        leader.finds = finds[:1]
        first = await play.start(ident, leaves_first())
        await play.called(ActivityName.FIND_REPLACEMENTS, before + 1)
        for number, result in enumerate(finds[1:2] if ends else finds[1:], start=2):
            leader.finds = [result]
            await first.signal(DisruptionCommandWorkflow.replacement_changed, "default-1")
            await play.called(ActivityName.FIND_REPLACEMENTS, before + number)
        if ends:
            await first.cancel()
        await first.result()


async def approvals(temporal: WorkflowEnvironment, cluster: str) -> None:
    """Commands that wait for a person: approved, refused, not answered in time, withdrawn, and approved empty nodes."""
    leader = Leader()
    queue, client = names.task_queue(cluster), temporal.client
    common = Worker(
        client,
        task_queue=queue,
        workflows=[DisruptionWorkflow, DisruptionCommandWorkflow],
        activities=leader.common(),
    )
    planning: list[Callable[..., Any]] = [leader.decide, leader.validate, leader.measure]
    planner = Worker(client, task_queue=names.plan_queue(cluster), activities=planning)
    asks = AwaitsApproval(seconds=timedelta(days=2).total_seconds())
    moves = evolve(command(graceful=False), approval=asks)
    empty = evolve(command(replacements=0), reason=Reason.EMPTY, moves_pods=False, only_if_empty=True, approval=asks)
    ann = Operator(by="ann", reason="seen in staging")
    with temporal.with_time_skipping_disabled():
        async with common, planner:
            await client.start_workflow(
                DisruptionWorkflow.run,
                DisruptionInput(cluster=cluster),
                id=names.disruption_id(cluster),
                task_queue=queue,
            )
            play = Commands(client, cluster, leader)
            approved = await play.start("underutilized-1", moves)
            await temporal.fast_forward(approved, timedelta(days=1))
            await approved.execute_update(DisruptionCommandWorkflow.approve, ann)
            await approved.result()
            refused = await play.start("underutilized-2", moves)
            await refused.execute_update(DisruptionCommandWorkflow.refuse, Refusal(by="ann", reason="not now"))
            await refused.result()
            unanswered = await play.start("underutilized-3", moves)
            await temporal.fast_forward(unanswered, timedelta(days=2, seconds=1))
            await unanswered.result()
            leader.fails[ActivityName.VALIDATE_COMMAND] = "a pod came or went"
            stale = await play.start("underutilized-4", moves)
            await stale.execute_update(DisruptionCommandWorkflow.approve, ann)
            await stale.result()
            leader.fails.clear()
            removed = await play.start("empty-1", empty)
            await removed.execute_update(DisruptionCommandWorkflow.approve, ann)
            await removed.result()
            withdrawn = await play.start("underutilized-5", moves)
            await play.answer(DisruptionDecision(finished_claims=["default-1"]))
            await withdrawn.result()
            await play.disruption.terminate()


async def commands(temporal: WorkflowEnvironment, cluster: str) -> None:
    """Commands that are refused, that replace nodes, that reboot one, that fail, and that an operator cancels."""
    leader = Leader()
    queue, client = names.task_queue(cluster), temporal.client
    planning: list[Callable[..., Any]] = [leader.decide, leader.validate, leader.measure]
    common = Worker(
        client,
        task_queue=queue,
        workflows=[DisruptionWorkflow, DisruptionCommandWorkflow],
        activities=leader.common(),
    )
    shared = Worker(client, task_queue=names.plan_queue(cluster), activities=planning)
    own = Worker(client, task_queue=names.leader_queue(cluster, "a"), activities=planning)
    moves = command(graceful=False)
    empty = evolve(command(replacements=0), reason=Reason.EMPTY, moves_pods=False, only_if_empty=True)
    with temporal.with_time_skipping_disabled():
        async with common, shared, own:
            await client.start_workflow(
                DisruptionWorkflow.run,
                DisruptionInput(cluster=cluster),
                id=names.disruption_id(cluster),
                task_queue=queue,
            )
            play = Commands(client, cluster, leader)
            leader.refused, leader.prices = {"default-2": "kept until tomorrow"}, {"default-1": 0.1}
            await (await play.start("empty-1", empty)).result()
            leader.waits, leader.savings = "default-new waits", {"default": MeasuredSaving(predicted=0.3, reached=0.1)}
            changed_command = evolve(
                command(), surge=["shop/db"], leaves_from=datetime.now(UTC) + timedelta(seconds=40)
            )
            replacing = await play.start("underutilized-1", changed_command)
            await play.disruption.signal(DisruptionWorkflow.planner_started, names.leader_queue(cluster, "a"))
            await temporal.fast_forward(replacing, timedelta(seconds=16))
            await play.called(ActivityName.AWAIT_REPLACEMENTS)
            leader.waits = ""
            await replacing.signal(DisruptionCommandWorkflow.replacement_changed, "default-new")
            await play.called(ActivityName.SURGE)
            await temporal.fast_forward(replacing, timedelta(seconds=40))
            await replacing.result()
            leader.fails[ActivityName.AWAIT_REPLACEMENTS] = "NodeClaim default-new is gone"
            await (await play.start("underutilized-2", moves)).result()
            leader.fails = {ActivityName.VALIDATE_COMMAND: "a pod came or went"}
            await (await play.start("underutilized-3", moves)).result()
            leader.fails, leader.refused = {}, {}
            await (await play.start("unhealthy-1", reboot())).result()
            await leave_first(play, leader)
            leader.waits = "default-new waits"
            before = leader.calls.count(ActivityName.AWAIT_REPLACEMENTS.value)
            waiting = await play.start("underutilized-4", moves)
            await play.called(ActivityName.AWAIT_REPLACEMENTS, before + 1)
            await waiting.cancel()
            await waiting.result()
            await play.continues_as_new()
            await play.disruption.terminate()


class Resolver:
    """Resolves a class twice, then finds it gone."""

    def __init__(self) -> None:
        self.requests = 0

    @activity.defn(name=ActivityName.RESOLVE_NODECLASS)
    async def resolve(self, node_class_input: NodeClassInput) -> NodeClassResult:
        self.requests += 1
        return NodeClassResult(ready=True) if self.requests < 3 else NodeClassResult(exists=False)


async def node_class(temporal: WorkflowEnvironment, cluster: str) -> None:
    """An EC2NodeClass is resolved, again when its time is over, and again after a change. Then it is gone."""
    resolver = Resolver()
    async with Worker(
        temporal.client,
        task_queue=names.task_queue(cluster),
        workflows=[NodeClassWorkflow],
        activities=[resolver.resolve],
    ):
        with temporal.with_time_skipping_disabled():
            handle = await temporal.client.start_workflow(
                NodeClassWorkflow.run,
                NodeClassInput(cluster=cluster, name="default"),
                id=names.nodeclass_id(cluster, "default"),
                task_queue=names.task_queue(cluster),
            )

            async def asked(times: int) -> bool:
                return resolver.requests >= times

            await until(partial(asked, 1))
            await temporal.fast_forward(handle, REFRESH + timedelta(seconds=1))
            await until(partial(asked, 2))
            await handle.signal(NodeClassWorkflow.poke)
            await handle.result()


@activity.defn(name=COLLECT_GARBAGE)
async def collect(sweep_input: GarbageCollectionInput) -> GarbageCollectionResult:
    """Leave an instance to its workflow."""
    return GarbageCollectionResult(left_since=sweep_input.left_since or {"i-1": datetime.now(UTC)})


async def sweeps(temporal: WorkflowEnvironment, cluster: str) -> None:
    """Two sweeps of a Schedule. The second gets what the first left."""
    queue = names.task_queue(cluster)
    sweep = ScheduleActionStartWorkflow(
        GarbageCollectionWorkflow.run,
        GarbageCollectionInput(cluster=cluster),
        id=garbage_collection_id(cluster),
        task_queue=queue,
    )
    async with Worker(temporal.client, task_queue=queue, workflows=[GarbageCollectionWorkflow], activities=[collect]):
        schedule = await temporal.client.create_schedule(schedule_id(cluster), Schedule(sweep, ScheduleSpec()))

        async def done(times: int) -> bool:
            description = await schedule.describe()
            return len(description.info.recent_actions) >= times and not description.info.running_actions

        for times in (1, 2):
            await schedule.trigger()
            await until(partial(done, times))
        await schedule.delete()


@activity.defn(name=ActivityName.APPLY_SCHEDULE)
async def apply_schedule(schedule_input: NodeScheduleInput) -> NodeScheduleResult:
    """Say what holds."""
    return NodeScheduleResult(pools=[ScheduledPool(name="ci", holds="off", nodes=2)], buffers={"shop/web": 3})


async def node_schedule(temporal: WorkflowEnvironment, cluster: str) -> None:
    """A NodeSchedule that changes what holds."""
    queue = names.task_queue(cluster)
    async with (
        Worker(temporal.client, task_queue=queue, workflows=[NodeScheduleWorkflow]),
        Worker(temporal.client, task_queue=names.plan_queue(cluster), activities=[apply_schedule]),
    ):
        await temporal.client.execute_workflow(
            NodeScheduleWorkflow.run,
            NodeScheduleInput(cluster=cluster, name="hours"),
            id=names.node_schedule_id(cluster, "hours"),
            task_queue=queue,
        )


class Idle:
    """Answers the calls of a quiet cluster, in which nothing is to be done."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    @activity.defn(name=ActivityName.AWAIT_BATCH)
    async def await_batch(self, batch_input: AwaitBatchInput) -> BatchSummary:
        await self._nothing(ActivityName.AWAIT_BATCH)
        return BatchSummary()

    @activity.defn(name=ActivityName.AWAIT_DISRUPTION)
    async def await_disruption(self, disruption_input: AwaitDisruptionInput) -> DisruptionDecision:
        await self._nothing(ActivityName.AWAIT_DISRUPTION)
        return DisruptionDecision()

    @activity.defn(name=ActivityName.RESOLVE_NODECLASS)
    async def resolve(self, node_class_input: NodeClassInput) -> NodeClassResult:
        self.calls[ActivityName.RESOLVE_NODECLASS] += 1
        return NodeClassResult(ready=True)

    async def _nothing(self, name: ActivityName) -> None:
        """The first three polls end, and the fourth stays open."""
        self.calls[name] += 1
        if self.calls[name] > 3:
            await asyncio.sleep(3600)


async def quiet(temporal: WorkflowEnvironment, cluster: str) -> None:
    """A cluster in which nothing happens: three polls for pods, three for disruption, three looks at a class."""
    idle, queue, client = Idle(), names.task_queue(cluster), temporal.client
    workers = (
        Worker(
            client,
            task_queue=queue,
            workflows=[ProvisionerWorkflow, DisruptionWorkflow, NodeClassWorkflow],
            activities=[idle.resolve],
        ),
        Worker(client, task_queue=names.plan_queue(cluster), activities=[idle.await_batch, idle.await_disruption]),
    )
    runs: tuple[tuple[Any, Any, str], ...] = (
        (ProvisionerWorkflow.run, ProvisionerInput(cluster=cluster), names.provisioner_id(cluster)),
        (DisruptionWorkflow.run, DisruptionInput(cluster=cluster), names.disruption_id(cluster)),
        (
            NodeClassWorkflow.run,
            NodeClassInput(cluster=cluster, name="default"),
            names.nodeclass_id(cluster, "default"),
        ),
    )

    async def asked(name: ActivityName, times: int) -> bool:
        return idle.calls[name] >= times

    with temporal.with_time_skipping_disabled():
        async with workers[0], workers[1]:
            handles = [
                await client.start_workflow(run, begin, id=ident, task_queue=queue) for run, begin, ident in runs
            ]
            for times in (2, 3):
                await until(partial(asked, ActivityName.RESOLVE_NODECLASS, times - 1))
                await temporal.fast_forward(handles[2], REFRESH + timedelta(seconds=1))
            await until(partial(asked, ActivityName.RESOLVE_NODECLASS, 3))
            await until(partial(asked, ActivityName.AWAIT_BATCH, 4))
            await until(partial(asked, ActivityName.AWAIT_DISRUPTION, 4))
            for handle in handles:
                await handle.terminate()


async def forecast(temporal: WorkflowEnvironment, cluster: str) -> None:
    """An operator asks what consolidation would do next, while the planner's poll stays open."""
    leader = Leader()
    queue, client = names.task_queue(cluster), temporal.client
    planning: list[Callable[..., Any]] = [leader.decide, leader.foresee]
    async with (
        Worker(client, task_queue=queue, workflows=[DisruptionWorkflow]),
        Worker(client, task_queue=names.plan_queue(cluster), activities=planning),
    ):
        with temporal.with_time_skipping_disabled():
            disruption = await client.start_workflow(
                DisruptionWorkflow.run,
                DisruptionInput(cluster=cluster),
                id=names.disruption_id(cluster),
                task_queue=queue,
            )
            await disruption.execute_update("forecast", result_type=ForecastAnswer)
            await disruption.terminate()


SCENARIOS = {
    "quiet": quiet,
    "batches": batches,
    "commands": commands,
    "forecast": forecast,
    "approvals": approvals,
    "node-class": node_class,
    "sweeps": sweeps,
    "node-schedule": node_schedule,
}
