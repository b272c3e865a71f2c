"""Reads disruption commands from their workflows: why, which nodes, what they save, and what they wait for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowExecutionStatus,
    WorkflowHandle,
    WorkflowQueryFailedError,
)
from temporalio.service import RPCError

from activities.kubernetes.bounded_concurrency import bounded
from tenon.apis.reasons import camel_case
from tenon.fleet.summary import CommandSummary
from tenon.kube.timestamps import time_text
from tenon.messages.command_steps import CommandProgress, DisruptInput
from tenon.messages.disruption import DisruptionCommand, DisruptResult
from tenon.node.ids import COMMAND_WORKFLOW, workflows_query
from tenon.sentences import counted, first_few
from worker.runtime.temporal.encrypted_payloads import PayloadCodecError
from workflows.disruption_command import DisruptionCommandWorkflow

CONCURRENCY = 10
"""Maximum number of commands that are read concurrently."""
MOST_RUNNING = 100
"""How many commands under way a view that is read again and again has."""
QUERY_TIMEOUT = timedelta(seconds=5)
NOT_ANSWERED = "no worker says what it waits for"
UNREADABLE = (PayloadCodecError, ValueError)
"""What reading a payload raises that is encrypted, in a shell without the key, or of another version."""


def commands_query(cluster: str, *, running: bool) -> str:
    """Return the visibility query for the commands of a cluster that are under way, or that have ended."""
    status = "=" if running else "!="
    return f"{workflows_query(cluster, COMMAND_WORKFLOW)} AND ExecutionStatus {status} 'Running'"


@dataclass(frozen=True, slots=True)
class CommandView:
    """A disruption command as people see it."""

    id: str
    reason: str
    nodes: Sequence[str]
    replacements: Sequence[str] = ()
    predicted: float | None = None
    """Dollars an hour that it saves as predicted; None if that is not known."""
    reached: float | None = None
    """Dollars an hour that it saves with what was launched; None before that is known. 0 if no node left."""
    started: datetime | None = None
    ended: datetime | None = None
    step: str = ""
    """What it did last, or what became of it."""
    waits: str = ""
    pods: int = 0
    explanation: Sequence[str] = ()
    awaits_approval: bool = False


def open_command(view: CommandView) -> CommandSummary:
    """Return a command under way as views of all nodes have it."""
    return CommandSummary(
        id=view.id,
        reason=camel_case(view.reason),
        nodes=view.nodes,
        replacements=view.replacements,
        saving=view.predicted,
        waits=view.waits or view.step,
        started=view.started,
        awaits_approval=view.awaits_approval,
    )


async def read_command(
    client: Client, execution: WorkflowExecution, nodes: Mapping[str, str], begin: DisruptInput | None = None
) -> CommandView:
    """Return a command, under way or ended.

    Args:
        client: of Temporal.
        execution: the run of the command's workflow.
        nodes: by NodeClaim, the name of its Node.
        begin: the input of the run; None to read it.

    Raises:
        RPCError: Temporal does not answer.
    """
    handle = client.get_workflow_handle(execution.id, run_id=execution.run_id)
    begin = begin or await input_of(handle)
    if begin is None:
        return _unreadable(execution)
    command = begin.command
    claims = [candidate.claim for candidate in command.candidates]
    progress, result = CommandProgress(), None
    if execution.status is WorkflowExecutionStatus.RUNNING:
        progress = await _progress(handle)
    elif execution.status is WorkflowExecutionStatus.COMPLETED:
        result = await _result(client, execution)
    step = progress.timeline[-1].replace("`", "") if progress.timeline else ""
    if result is not None:
        step = outcome(result)
    elif execution.status is not None and execution.status is not WorkflowExecutionStatus.RUNNING:
        step = f"ended as {execution.status.name.lower()}"
    return CommandView(
        id=command.id,
        reason=command.reason,
        nodes=[nodes.get(claim, claim) for claim in claims],
        replacements=[nodes.get(item.name, item.name) for item in command.replacements]
        or list(result.replaced_by if result is not None else ()),
        predicted=command.predicted or None,
        reached=_reached(command, result) if result is not None else None,
        started=execution.start_time,
        ended=execution.close_time,
        step=step,
        waits=_waits(command.id, progress),
        pods=command.pods,
        explanation=command.explanation,
        awaits_approval=progress.approve_until is not None,
    )


def _unreadable(execution: WorkflowExecution) -> CommandView:
    return CommandView(execution.id.rsplit("/", 1)[-1], "", (), started=execution.start_time, step="unreadable")


def _waits(ident: str, progress: CommandProgress) -> str:
    """Return what a command waits for, with what ends the wait if that is up to a person."""
    if progress.approve_until is None:
        return progress.waits
    until = time_text(progress.approve_until)
    answers = f"tenon approve {ident}, or tenon refuse {ident}"
    return f"waits for approval until {until}: {answers}; it is validated again then"


def _reached(command: DisruptionCommand, result: DisruptResult) -> float | None:
    """What an ended command saves. One that was undone saves nothing, one for empty nodes what those that left cost."""
    if result.saving is not None:
        return result.saving.reached
    if result.prices and not command.moves_pods:
        return sum(result.prices.values())
    return None if result.accepted or result.leaving else 0.0


async def _result(client: Client, execution: WorkflowExecution) -> DisruptResult | None:
    """The result of a command; None if it cannot be read."""
    handle = client.get_workflow_handle(execution.id, run_id=execution.run_id, result_type=DisruptResult)
    try:
        result: DisruptResult = await handle.result(follow_runs=False)
    except UNREADABLE:
        return None
    return result


async def input_of(handle: WorkflowHandle[Any, Any]) -> DisruptInput | None:
    """The input of a run, from its first event: it is there without a worker. None if it cannot be read."""
    async for event in handle.fetch_history_events(page_size=1):
        if event.event_type != EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
            return None
        payloads = event.workflow_execution_started_event_attributes.input.payloads
        try:
            (begin,) = await handle._client.data_converter.decode(payloads, [DisruptInput])
        except UNREADABLE:
            return None
        return begin if isinstance(begin, DisruptInput) else None
    return None


async def _progress(handle: WorkflowHandle[Any, Any]) -> CommandProgress:
    try:
        answer: CommandProgress = await handle.query(DisruptionCommandWorkflow.progress, rpc_timeout=QUERY_TIMEOUT)
    except (WorkflowQueryFailedError, RPCError, *UNREADABLE):
        return CommandProgress(waits=NOT_ANSWERED)
    return answer


def outcome(result: DisruptResult) -> str:
    """What became of a command, in a clause."""
    if result.failure:
        return f"undone: {result.failure}"
    parts = [f"{counted(len(result.accepted), 'node')} left"] if result.accepted else []
    stayed = {why for claim, why in result.refused.items() if claim not in result.leaving}
    if stayed:
        count = len(result.refused) - len(result.leaving)
        parts.append(f"{counted(count, 'node')} stayed: {first_few(sorted(stayed), 2)}")
    return "; ".join([*parts, *([result.replacement] if result.replacement else [])]) or "nothing to do"


class RunningCommands:
    """The commands under way of a cluster, for a view that asks again and again. The input of a run is read once."""

    def __init__(self) -> None:
        self._inputs: dict[str, DisruptInput | None] = {}
        """By the ID of the run; None for one that cannot be read."""
        self._answered_runs: set[str] = set()
        """The IDs of the runs that wait for no person, and never will."""

    async def read(self, client: Client, cluster: str, nodes: Mapping[str, str] | None = None) -> list[CommandView]:
        """Return the commands, the oldest first. ``nodes``: by NodeClaim, the name of its Node, if that is known.

        Raises:
            RPCError: Temporal does not answer.
        """
        executions = await self._executions(client, cluster)
        return list(
            await bounded(executions, CONCURRENCY, lambda execution: self._read(client, execution, nodes or {}))
        )

    async def awaiting_approval(
        self, client: Client, cluster: str, nodes: Mapping[str, str] | None = None
    ) -> list[CommandView]:
        """Return the commands that wait for a person, as above. A command that never will is asked once at most."""
        executions = [run for run in await self._executions(client, cluster) if run.run_id not in self._answered_runs]
        views = await bounded(executions, CONCURRENCY, lambda run: self._awaiting(client, run, nodes or {}))
        return [view for view in views if view is not None]

    async def _executions(self, client: Client, cluster: str) -> list[WorkflowExecution]:
        runs = client.list_workflows(commands_query(cluster, running=True), limit=MOST_RUNNING)
        executions = sorted([execution async for execution in runs], key=lambda execution: execution.start_time)
        present = {execution.run_id for execution in executions}
        self._inputs = {run_id: begin for run_id, begin in self._inputs.items() if run_id in present}
        self._answered_runs &= present
        return executions

    async def _awaiting(
        self, client: Client, execution: WorkflowExecution, nodes: Mapping[str, str]
    ) -> CommandView | None:
        begin = await self._input(client, execution)
        asks = begin is not None and begin.command.approval is not None and begin.awaited is None
        view = await read_command(client, execution, nodes, begin) if asks else None
        if view is None or not (view.awaits_approval or view.waits == NOT_ANSWERED):
            self._answered_runs.add(execution.run_id)
        return view if view is not None and view.awaits_approval else None

    async def _read(self, client: Client, execution: WorkflowExecution, nodes: Mapping[str, str]) -> CommandView:
        begin = await self._input(client, execution)
        return await read_command(client, execution, nodes, begin) if begin is not None else _unreadable(execution)

    async def _input(self, client: Client, execution: WorkflowExecution) -> DisruptInput | None:
        if execution.run_id not in self._inputs:
            handle = client.get_workflow_handle(execution.id, run_id=execution.run_id)
            self._inputs[execution.run_id] = await input_of(handle)
        return self._inputs[execution.run_id]
