"""Runs workflows without Temporal's sandbox, counts what their code fails at, and says which runs stay on a version.

**Worker versioning.** A run that has only waited is its state and timers, which every version can replay. So it moves
to another version of the worker at its next task (AUTO_UPGRADE). From its first other command on, the run stays on the
version that gave it (PINNED), because another version might give its commands in another order. It moves when it
continues as new (`workflows/continuing.py`). Temporal takes the behavior from each completed task, so a workflow needs
no second type for its rest.

**Failures.** Temporal retries a task that fails on an error in the code until a version without the error runs, so the
workflow stands still. Temporal's SDK counts these tasks too, but serves its metrics only on a port of its own.
"""

from __future__ import annotations

from temporalio.api.enums.v1 import VersioningBehavior
from temporalio.bridge.proto.workflow_activation import RemoveFromCache, WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.worker import UnsandboxedWorkflowRunner, WorkflowInstance, WorkflowInstanceDetails
from temporalio.workflow import NondeterminismError

from activities.metrics import WORKFLOW_RUNS_ENDED, WORKFLOW_TASK_FAILURES

WAITING_COMMANDS = frozenset(
    {
        "start_timer",
        "cancel_timer",
        "upsert_workflow_search_attributes",
        "modify_workflow_properties",
        "respond_to_query",
        "update_response",
    }
)
"""What a run does while it only waits, as Temporal's core names its commands."""


class TaskFailures:
    """Counts the workflow tasks that failed in this process."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, workflow_type: str) -> None:
        """Count one."""
        self.count += 1
        WORKFLOW_TASK_FAILURES.labels(workflow_type).inc()


TASK_FAILURES = TaskFailures()


class TenonWorkflowRunner(UnsandboxedWorkflowRunner):
    """Wraps each instance, as the module says."""

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """Create an instance whose activations are observed."""
        instance = super().create_instance(det)
        activate = instance.activate
        has_acted = False
        ends_runs = NondeterminismError in det.worker_level_failure_exception_types

        def observed(act: WorkflowActivation) -> WorkflowActivationCompletion:
            nonlocal has_acted
            if _cannot_replay(act):
                if ends_runs:
                    WORKFLOW_RUNS_ENDED.labels(det.info.workflow_type).inc()
                else:
                    TASK_FAILURES.add(det.info.workflow_type)
            completion = activate(act)
            if completion.HasField("failed"):
                TASK_FAILURES.add(det.info.workflow_type)
                return completion
            commands = {command.WhichOneof("variant") for command in completion.successful.commands}
            has_acted = has_acted or not commands <= WAITING_COMMANDS
            # Without worker versioning, a version has a build ID but no deployment.
            if has_acted and act.deployment_version_for_current_task.deployment_name:
                completion.successful.versioning_behavior = VersioningBehavior.VERSIONING_BEHAVIOR_PINNED
            return completion

        instance.activate = observed  # type: ignore[method-assign]  # an instance has more methods, and the SDK adds some
        return instance


def _cannot_replay(act: WorkflowActivation) -> bool:
    """Whether Temporal's core removes the run because its history does not match what the code did."""
    return any(
        job.remove_from_cache.reason == RemoveFromCache.EvictionReason.NONDETERMINISM
        for job in act.jobs
        if job.HasField("remove_from_cache")
    )
