"""The workflow that ends all that Tenon has bought and made for a cluster, in phases that can each be repeated.

Nothing that a run remembers is needed to go on: each step looks up what is there. So a worker may die at any moment,
and a teardown that is started again continues where an earlier one stopped. Rounds of terminations are bounded, so
their history is. A drain may last for days: it continues as new, with the report and what it has seen.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import NoReturn, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from tenon.evolve import evolve
    from tenon.messages.base import API_SERVER_UNREACHABLE, ActivityName, ErrorType, Message
    from tenon.messages.teardown import (
        DrainClusterInput,
        DrainClusterResult,
        DrainProgress,
        EndedWorkflows,
        EndWorkflowsInput,
        Leftover,
        MarkResult,
        RemovedThings,
        RemoveResourcesInput,
        Survey,
        TeardownInput,
        TeardownReport,
        TerminateRoundInput,
        TerminateRoundResult,
    )
    from tenon.sentences import counted, first_few
    from tenon.teardown import page, report
    from tenon.teardown.draining import FAILS_FOR, Draining
    from tenon.teardown.rounds import Rounds, after, begin_rounds, pause_before_next
    from workflows import activity_calls, names
    from workflows.continuing import continue_as_new, must_continue_as_new
    from workflows.garbage_collection import schedule_id

Answer = TypeVar("Answer", bound=Message)
IN_KUBERNETES = (ActivityName.STOP_BUYING, ActivityName.DRAIN_CLUSTER, ActivityName.REMOVE_FINALIZERS)
TAGS_ONLY = "the teardown works from EC2's tags alone"
NEVER_ANSWERED = "the API server has not answered since the teardown began"
MAX_HISTORY = 500
"""The number of history events after which a drain continues as new."""


@workflow.defn(name="Teardown")
class TeardownWorkflow:
    """Ends instances, launch templates, instance profiles and workflows of one cluster. Its result is the report."""

    @workflow.init
    def __init__(self, begin: TeardownInput) -> None:
        self.begin = evolve(begin, drain=None)  # steps get it, and need no report
        self.report = begin.drain.report if begin.drain is not None else report.begin(begin, workflow.now())
        self.rounds = Rounds()
        self.failure = ""
        """The type of the failure of the last step in Kubernetes; empty if it has none."""
        self.has_answered = begin.drain is not None and begin.drain.has_answered
        """Whether the API server has answered since the teardown began."""
        if begin.tags_only and not begin.dry_run:
            for step in IN_KUBERNETES:
                self.report = report.with_skipped(self.report, step.value, TAGS_ONLY)

    @workflow.run
    async def run(self, begin: TeardownInput) -> TeardownReport:
        """Survey the cluster and, unless it is a dry run, end all that it has."""
        if begin.drain is not None:
            self.rounds = begin_rounds(self.report.survey.instances)
            await self._drain(_resumed(begin, begin.drain), begin.drain.unmarked, must_repeat=begin.drain.must_repeat)
            return await self._end_cluster()
        self._show("surveying", "looks up what the cluster has")
        survey = await self._do(ActivityName.SURVEY_CLUSTER, begin, Survey, "instances, launch templates, profiles")
        self.report = report.with_survey(self.report, survey)
        if begin.dry_run:
            return self._finished()
        self.rounds = begin_rounds(survey.instances)
        self._note(f"found {counted(survey.instance_count, 'instance')}")
        if not begin.tags_only:
            await self._leave_kubernetes()
        return await self._end_cluster()

    @workflow.query(description="How far the teardown is: the report that it returns at its end.")
    def progress(self) -> TeardownReport:
        """Return the report up to now."""
        return self.report

    async def _end_cluster(self) -> TeardownReport:
        """End what is left when the nodes have left by themselves, or will not."""
        begin = self.begin
        self._show("stopping", "ends the cluster's open workflows, which could buy nodes")
        await self._end_workflows()
        await self._terminate_instances()
        self._show("removing", "deletes launch templates and instance profiles")
        has_instances = bool(self.rounds.alive or self.rounds.given_up or self.rounds.leaving)
        removed = await self._do(
            ActivityName.REMOVE_RESOURCES,
            RemoveResourcesInput(cluster=begin.cluster, has_instances=has_instances),
            RemovedThings,
            "launch templates, instance profiles",
        )
        self.report = report.with_removed(self.report, removed, workflow.now())
        self._note("deleted launch templates and instance profiles")
        if not begin.tags_only:
            self._show("removing", "removes the finalizers that are left")
            released = await self._in_kubernetes(
                ActivityName.REMOVE_FINALIZERS, begin, RemovedThings, "of NodeClaims, Nodes, EC2NodeClasses"
            )
            if released is not None:
                self.report = report.with_released(self.report, released, workflow.now())
        await self._end_workflows()
        return self._finished()

    async def _leave_kubernetes(self) -> None:
        """Buy nothing any more, and have the workflow of each node drain and terminate it."""
        begin = self.begin
        self._show("stopping", "marks NodePools and EC2NodeClasses, so that nothing is bought")
        marked = await self._in_kubernetes(
            ActivityName.STOP_BUYING, begin, MarkResult, "marks NodePools and EC2NodeClasses"
        )
        if marked is not None:
            self._note(f"{counted(len(marked.pools), 'NodePool')} will buy nothing more")
        draining = Draining(workflow.now(), timedelta(seconds=begin.drain_seconds))
        if marked is None and self._is_without_api_server(draining):
            self._note("goes on without the API server")
            self.report = report.with_skipped(self.report, ActivityName.DRAIN_CLUSTER.value, NEVER_ANSWERED)
            return
        await self._drain(draining, marked.problems if marked is not None else [])

    async def _drain(self, draining: Draining, unmarked: list[Leftover], *, must_repeat: bool = False) -> None:
        """Ask nodes to leave, round by round. ``unmarked``: what could not be marked, as far as is known.

        ``must_repeat``: whether the first round drains by force again.
        """
        begin = self.begin
        while True:
            is_forced = must_repeat or draining.must_force(workflow.now())
            self._show("draining", "drains the cluster's nodes")
            step_input = DrainClusterInput(
                cluster=begin.cluster, by=begin.by, reason=begin.reason, ticket=begin.ticket, force=is_forced
            )
            summary = "by force" if is_forced else "within PodDisruptionBudgets"
            result = await self._in_kubernetes(ActivityName.DRAIN_CLUSTER, step_input, DrainClusterResult, summary)
            draining = draining.after_round(workflow.now(), failed=result is None)
            if result is None:
                if self._goes_on_without(draining) or draining.is_over(workflow.now(), 1):
                    break
                self._show("draining", "waits until the step in Kubernetes succeeds")
            else:
                self.report = report.without_skipped(self.report, ActivityName.STOP_BUYING.value)
                unmarked = result.unmarked
                must_repeat = is_forced and bool(result.unasked)
                if is_forced and draining.forced_at is None:
                    draining = replace(draining, forced_at=workflow.now())
                    self._note("deletes the pods that are left, even protected ones")
                self._note(_drained(result))
                if draining.is_over(workflow.now(), result.claim_count):
                    break
                self._show("draining", f"waits until nodes have left: {first_few(result.claims, 5)}")
            await workflow.sleep(draining.pause(workflow.now()), summary="Then Tenon looks again which nodes are left")
            if must_continue_as_new(MAX_HISTORY):
                self._continue(draining, unmarked, must_repeat=must_repeat)
        self.report = report.with_left(self.report, unmarked)

    def _continue(self, draining: Draining, unmarked: list[Leftover], *, must_repeat: bool) -> NoReturn:
        progress = DrainProgress(
            report=self.report,
            since=draining.since,
            rounds=draining.rounds,
            forced_at=draining.forced_at,
            failing_since=draining.failing_since,
            must_repeat=must_repeat,
            has_answered=self.has_answered,
            unmarked=unmarked,
        )
        continue_as_new(evolve(self.begin, drain=progress))

    def _goes_on_without(self, draining: Draining) -> bool:
        """Whether nodes end without a drain, because it has failed. The report says so."""
        if self._is_without_api_server(draining):
            self._note("goes on without the API server")
            return True
        if not draining.is_given_up(workflow.now()):
            return False
        hours = FAILS_FOR / timedelta(hours=1)
        why = self.report.skipped.get(ActivityName.DRAIN_CLUSTER.value, "")
        text = f"it has failed for {hours:.0f} hours: {why}"
        self.report = report.with_skipped(self.report, ActivityName.DRAIN_CLUSTER.value, text)
        self._note("goes on without a drain, which has failed for too long")
        return True

    def _is_without_api_server(self, draining: Draining) -> bool:
        """Whether nodes leave without a drain: no one can drain them.

        One that has never answered is gone with its cluster. One that has may come back while there is time to drain.
        Any other failure, such as a right that lacks or no worker, is no reason to end nodes with their pods.
        """
        is_unreachable = self.failure == API_SERVER_UNREACHABLE
        is_gone = not self.has_answered or draining.is_past_time(workflow.now())
        return self.failure == ErrorType.NO_API_SERVER or (is_unreachable and is_gone)

    async def _in_kubernetes(
        self, name: ActivityName, step_input: Message, result_type: type[Answer], summary: str
    ) -> Answer | None:
        """Run a step; None if it failed, which the report says unless it succeeds later."""
        try:
            result = await self._do(name, step_input, result_type, summary)
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            self.failure, why = _type_of(error), _cause(error)
            self.report = report.with_skipped(self.report, name.value, why)
            self._note(f"{name.value}: {why}")
            return None
        self.failure, self.has_answered = "", True
        self.report = report.without_skipped(self.report, name.value)
        return result

    async def _end_workflows(self) -> None:
        cluster = self.begin.cluster
        ended = await self._do(
            ActivityName.END_WORKFLOWS,
            EndWorkflowsInput(
                task_queue=names.task_queue(cluster),
                schedule=schedule_id(cluster),
                schedules_prefix=names.node_schedules_prefix(cluster),
                why="The cluster is torn down",
            ),
            EndedWorkflows,
            "of nodes, provisioner, disruption, EC2NodeClasses; and their Schedules",
        )
        if ended.count:
            self.report = report.with_workflows(self.report, ended.count)
            self._note(f"ended {counted(ended.count, 'workflow')}")

    async def _terminate_instances(self) -> None:
        while True:
            self._show("terminating", "terminates the cluster's instances")
            result = await self._do(
                ActivityName.TERMINATE_CLUSTER,
                TerminateRoundInput(cluster=self.begin.cluster, refused=self.rounds.given_up),
                TerminateRoundResult,
                f"round {self.rounds.number + 1}",
            )
            self.rounds = after(self.rounds, result, workflow.now())
            waiting = f"{result.alive_count} alive, {result.leaving_count} shutting down"
            self._note(f"instances: {waiting}")
            pause = pause_before_next(self.rounds, workflow.now())
            if pause is None:
                break
            self._show("terminating", f"waits for instances: {waiting}")
            await workflow.sleep(pause, summary="Then Tenon looks for instances of the cluster again")
        self.report = report.with_rounds(self.report, self.rounds)

    async def _do(self, name: ActivityName, step_input: Message, result_type: type[Answer], summary: str) -> Answer:
        return await activity_calls.start(name, step_input, result_type, summary)

    def _note(self, text: str) -> None:
        self.report = report.noted(self.report, workflow.now(), text)

    def _show(self, stage: str, now_doing: str) -> None:
        if not self.begin.dry_run:
            attributes = workflow.info().typed_search_attributes
            if attributes.get(names.STAGE) != stage:
                workflow.upsert_search_attributes([names.STAGE.value_set(stage)])
        workflow.set_current_details(page.current_details(self.report, now_doing))

    def _finished(self) -> TeardownReport:
        self.report = report.finished(self.report, workflow.now())
        self._show("ended", "")
        return self.report


def _resumed(begin: TeardownInput, progress: DrainProgress) -> Draining:
    """The drain as an earlier run left it."""
    return Draining(
        progress.since,
        timedelta(seconds=begin.drain_seconds),
        rounds=progress.rounds,
        forced_at=progress.forced_at,
        failing_since=progress.failing_since,
    )


def _drained(result: DrainClusterResult) -> str:
    """Say how many nodes a round found, and what it could not change."""
    problems = [f"{item.kind} {item.name}: {item.why}" for item in [*result.unasked, *result.unmarked]]
    refused = f"; refused: {first_few(problems, 3)}" if problems else ""
    return f"{counted(result.claim_count, 'NodeClaim')} left{refused}"


def _type_of(error: ActivityError) -> str:
    """The type of a failure that an activity gave; empty if it has none, such as a timeout without an attempt."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ApplicationError):
            return cause.type or ""
        cause = cause.__cause__
    return ""


def _cause(error: ActivityError) -> str:
    """The innermost message of a failure."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    return cause.message if isinstance(cause, FailureError) else str(cause)
