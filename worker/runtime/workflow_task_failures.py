"""Counts workflow tasks that fail on an error in the code of a workflow.

Temporal tries such a task again until a version without the error runs, so the workflow stands still: a node of it is
neither launched nor drained. Temporal's SDK counts them too, but serves its metrics only on a port of its own.
"""

from __future__ import annotations

from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.worker import UnsandboxedWorkflowRunner, WorkflowInstance, WorkflowInstanceDetails

from activities.metrics import WORKFLOW_TASK_FAILURES


class CountingRunner(UnsandboxedWorkflowRunner):
    """Runs workflows without the sandbox, and counts their failed tasks by the type of the workflow."""

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """Create an instance that counts."""
        instance = super().create_instance(det)
        activate = instance.activate

        def counted(act: WorkflowActivation) -> WorkflowActivationCompletion:
            completion = activate(act)
            if completion.HasField("failed"):
                WORKFLOW_TASK_FAILURES.labels(det.info.workflow_type).inc()
            return completion

        instance.activate = counted  # type: ignore[method-assign]  # an instance has more methods, and the SDK adds some
        return instance
