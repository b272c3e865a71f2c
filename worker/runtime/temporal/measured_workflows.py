"""Measures how long disruption commands waited for a person, and with which answer.

Commands that are refused run no activity, so their workflow is where every answer is known. Nothing of it is in the
history, and a replay measures nothing.
"""

from __future__ import annotations

from typing import Any

from temporalio import workflow
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from activities import metrics
from tenon.apis.reasons import snake_case
from tenon.messages.command_approval import Approval
from tenon.messages.command_steps import DisruptInput
from tenon.messages.disruption import DisruptionCommand, DisruptResult

_MEASURE = "__tenon_measure_approval"


class MeasureInterceptor(Interceptor):
    """For workers that run workflows."""

    def workflow_interceptor_class(self, input: WorkflowInterceptorClassInput) -> type[WorkflowInboundInterceptor]:
        """Return what wraps each workflow."""
        input.unsafe_extern_functions[_MEASURE] = measure
        return _Inbound


class _Inbound(WorkflowInboundInterceptor):
    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
        result = await super().execute_workflow(input)
        begin = input.args[0] if input.args else None
        approval = result.approval if isinstance(result, DisruptResult) else None
        if isinstance(begin, DisruptInput) and approval is not None and not workflow.unsafe.is_replaying():
            workflow.extern_functions()[_MEASURE](begin.command, approval)
        return result


def measure(command: DisruptionCommand, approval: Approval) -> None:
    """Observe the wait of a command that has ended, once for each NodePool with a node in it."""
    for pool in sorted({candidate.pool for candidate in command.candidates}):
        labels = (pool, snake_case(command.reason), approval.answer.value)
        metrics.APPROVAL_WAIT_SECONDS.labels(*labels).observe(approval.seconds)
