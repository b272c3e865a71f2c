"""Records what workflows did: when a disruption command starts and ends, when a node's life and a teardown have ended.

All commands pass through their workflow, and all lives through theirs, whichever activities they ran. An entry of a
workflow is like a line of its log: nothing of it is in the history, and a replay writes none. If a task is tried again,
the entry is written again, with the same ID.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from activities.record.writer import RecordWriter
from tenon.messages.command_steps import DisruptInput
from tenon.messages.disruption import DisruptionCommand, DisruptResult
from tenon.messages.teardown import TeardownInput, TeardownReport
from tenon.node.state import NodeClaimInput, NodeClaimResult
from tenon.record.commands import command_end_entry, command_entry
from tenon.record.entries import Entry
from tenon.record.origin import Origin
from tenon.record.removals import removal_entry
from tenon.record.teardowns import teardown_entry

_WRITE = "__tenon_write_entry"


class RecordInterceptor(Interceptor):
    """For workers that run workflows."""

    def __init__(self, record: RecordWriter) -> None:
        self._record = record

    def workflow_interceptor_class(self, input: WorkflowInterceptorClassInput) -> type[WorkflowInboundInterceptor]:
        """Return what wraps each workflow."""
        input.unsafe_extern_functions[_WRITE] = self._record.write
        return _Inbound


class _Inbound(WorkflowInboundInterceptor):
    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
        match input.args[0] if input.args else None:
            case DisruptInput() as begin:
                return await self._command(input, begin)
            case NodeClaimInput() as begin:
                result = await super().execute_workflow(input)
                if isinstance(result, NodeClaimResult):
                    origin, now = _origin(begin.claim.cluster), workflow.now()
                    _write(partial(removal_entry, origin, now, begin.claim.uid, result))
                return result
            case TeardownInput() as begin:
                result = await super().execute_workflow(input)
                if isinstance(result, TeardownReport) and not result.dry_run:
                    _write(partial(teardown_entry, _origin(begin.cluster), workflow.now(), result))
                return result
            case _:
                return await super().execute_workflow(input)

    async def _command(self, input: ExecuteWorkflowInput, begin: DisruptInput) -> Any:
        origin, first_run = _origin(begin.cluster), workflow.info().first_execution_run_id
        started = workflow.info().workflow_start_time
        if begin.awaited is None:
            _write(partial(command_entry, origin, started, begin.command, first_run))
        else:
            started = begin.awaited.since
        try:
            result = await super().execute_workflow(input)
        except FailureError as error:
            claims = [candidate.claim for candidate in begin.command.candidates]
            refused = dict.fromkeys(claims, str(error))
            approval = getattr(workflow.instance(), "approval", None)
            failure = DisruptResult(refused=refused, failure=str(error), approval=approval)
            _write(partial(command_end_entry, origin, workflow.now(), begin.command, first_run, failure, started))
            raise
        if isinstance(result, DisruptResult):
            command = _carried_out(begin.command)
            _write(partial(command_end_entry, origin, workflow.now(), command, first_run, result, started))
        return result


def _carried_out(command: DisruptionCommand) -> DisruptionCommand:
    """The command that its workflow carried out, which may have taken other replacements."""
    begin = getattr(workflow.instance(), "begin", None)
    return begin.command if isinstance(begin, DisruptInput) else command


def _origin(cluster: str) -> Origin:
    info = workflow.info()
    return Origin(cluster, info.workflow_id, info.run_id)


def _write(make: Callable[[], Entry]) -> None:
    if not workflow.unsafe.is_replaying():
        workflow.extern_functions()[_WRITE](make)
