"""Teardowns that the replay corpus holds: EC2 refuses one instance, and shows another late."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from tenon.messages.base import ActivityName
from tenon.messages.teardown import (
    ClusterInstance,
    ClusterTemplate,
    DrainClusterInput,
    DrainClusterResult,
    EndedWorkflows,
    EndWorkflowsInput,
    MarkResult,
    RemovedThings,
    RemoveResourcesInput,
    Survey,
    TeardownInput,
    TerminateRoundInput,
    TerminateRoundResult,
)
from tenon.teardown import page
from workflows import names
from workflows.teardown import TeardownWorkflow

ONE, PROTECTED, LATE = (
    ClusterInstance(id=f"i-{number}", state="running", launched_at=datetime(2026, 11, 1, tzinfo=UTC), price=0.1)
    for number in range(3)
)


LONG_DRAIN = 6000.0
"""Seconds for which budgets hold, with so many rounds that the drain continues as new."""


class Account:
    """Answers the steps of a teardown."""

    def __init__(self) -> None:
        self.rounds = 0
        self.is_forced = False

    @activity.defn(name=ActivityName.SURVEY_CLUSTER)
    async def survey(self, teardown_input: TeardownInput) -> Survey:
        templates = [ClusterTemplate(id="lt-1", name="one")]
        return Survey(
            region="us-west-2", instances=[ONE, PROTECTED], instance_count=2, templates=templates, template_count=1
        )

    @activity.defn(name=ActivityName.STOP_BUYING)
    async def stop_buying(self, teardown_input: TeardownInput) -> MarkResult:
        return MarkResult(pools=["web"], classes=["default"])

    @activity.defn(name=ActivityName.DRAIN_CLUSTER)
    async def drain(self, drain_input: DrainClusterInput) -> DrainClusterResult:
        """A budget holds one node until pods are deleted by force."""
        self.is_forced = self.is_forced or drain_input.force
        claims = [] if self.is_forced else ["web-1"]
        return DrainClusterResult(claims=claims, claim_count=len(claims))

    @activity.defn(name=ActivityName.REMOVE_FINALIZERS)
    async def remove_finalizers(self, teardown_input: TeardownInput) -> RemovedThings:
        if self.is_forced:
            raise ApplicationError("the API server does not answer", non_retryable=True)
        return RemovedThings()

    @activity.defn(name=ActivityName.TERMINATE_CLUSTER)
    async def terminate(self, round_input: TerminateRoundInput) -> TerminateRoundResult:
        self.rounds += 1
        alive = [PROTECTED] if PROTECTED.id not in round_input.refused else []
        alive += {1: [ONE], 5: [LATE]}.get(self.rounds, [])
        refusals = {item.id: "it has termination protection" for item in alive if item is PROTECTED}
        leaving = int(self.rounds in (2, 6))
        return TerminateRoundResult(alive=alive, alive_count=len(alive), leaving_count=leaving, refusals=refusals)

    @activity.defn(name=ActivityName.REMOVE_RESOURCES)
    async def remove(self, remove_input: RemoveResourcesInput) -> RemovedThings:
        return RemovedThings(removed={"launch template": ["one"]})

    @activity.defn(name=ActivityName.END_WORKFLOWS)
    async def end_workflows(self, end_input: EndWorkflowsInput) -> EndedWorkflows:
        return EndedWorkflows(count=0 if self.rounds else 3)

    def steps(self) -> list[Callable[..., Any]]:
        """The activities to register."""
        return [
            self.survey,
            self.stop_buying,
            self.drain,
            self.terminate,
            self.remove,
            self.remove_finalizers,
            self.end_workflows,
        ]


async def teardown(temporal: WorkflowEnvironment, cluster: str) -> None:
    """A dry run; a teardown whose API server goes away after the drain; another one from EC2's tags alone.

    And one of another account, whose drain is so long that it continues as new.
    """
    short, long = Account(), Account()
    for account, dry_run, tags_only, drain_seconds in (
        (short, True, False, 60.0),
        (short, False, False, 60.0),
        (short, False, True, 60.0),
        (long, False, False, LONG_DRAIN),
    ):
        await _run(temporal, cluster, account, dry_run=dry_run, tags_only=tags_only, drain_seconds=drain_seconds)


async def _run(
    temporal: WorkflowEnvironment,
    cluster: str,
    account: Account,
    *,
    dry_run: bool,
    tags_only: bool,
    drain_seconds: float,
) -> None:
    queue = names.task_queue(cluster)
    async with Worker(temporal.client, task_queue=queue, workflows=[TeardownWorkflow], activities=account.steps()):
        await temporal.client.execute_workflow(
            TeardownWorkflow.run,
            page.first_input(
                cluster, by="ann", reason="moved", dry_run=dry_run, tags_only=tags_only, drain_seconds=drain_seconds
            ),
            id=names.teardown_id(cluster, dry_run=dry_run),
            task_queue=queue,
        )
