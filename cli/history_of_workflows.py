"""Makes entries of the record from workflows that have ended, as long as Temporal keeps them.

They have the IDs of the entries that the worker recorded, so what is in both appears once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.service import RPCError, RPCStatusCode

from activities.kubernetes.bounded_concurrency import bounded
from tenon.messages.command_steps import DisruptInput
from tenon.messages.disruption import DisruptResult
from tenon.node.ids import COMMAND_WORKFLOW, NODECLAIM_WORKFLOW, UID_MEMO, nodeclaim_id, workflows_query
from tenon.node.state import NodeClaimResult
from tenon.record.commands import command_end_entry, command_entry
from tenon.record.entries import Entry, EntryKind
from tenon.record.history import EntryQuery
from tenon.record.origin import Origin
from tenon.record.removals import removal_entry
from workflows import names

MOST_WORKFLOWS = 500
"""How many ended nodes, and how many commands, are read: each takes one or two requests."""
MOST_NAMES = 20
CONCURRENCY = 20


@dataclass
class WorkflowHistory:
    """What Temporal still has."""

    entries: list[Entry] = field(default_factory=list)
    retention: timedelta | None = None
    """How long it keeps workflows that have ended; None if it does not say."""
    is_cut: bool = False
    """There are more than `MOST_WORKFLOWS`."""
    other_names: set[str] = field(default_factory=set)
    """The NodeClaims, Nodes and instances of the nodes that have one of the names."""


async def history_of_workflows(
    client: Client, cluster: str, question: EntryQuery, node_names: Iterable[str], since: datetime, until: datetime
) -> WorkflowHistory:
    """Return the ends of nodes, and the commands, of this time.

    ``node_names``: the names that the thing of the question has; empty for all.
    """
    history = WorkflowHistory(retention=await _retention(client))
    all_names = set(node_names)
    looked_for = sorted(name for name in all_names if "/" not in name)[:MOST_NAMES]
    own = workflows_query(cluster, NODECLAIM_WORKFLOW)
    if looked_for:
        for execution in await _listed(client, f"{own} AND {_of_nodes(cluster, looked_for)}", history):
            history.other_names |= _names_of(execution)
        looked_for = sorted({*looked_for, *history.other_names})[: 2 * MOST_NAMES]
    wants_ends = not question.kinds or EntryKind.REMOVAL in question.kinds
    if wants_ends and (looked_for or not all_names):
        query = (
            f"{own} AND ExecutionStatus = 'Completed' "
            f"AND CloseTime >= '{since.isoformat()}' AND CloseTime < '{until.isoformat()}'"
        )
        if question.pool:
            query += f" AND {names.POOL.name} = '{_quoted(question.pool)}'"
        if looked_for:
            of_pool = f"{names.POOL.name} = '{_quoted(question.name)}'"
            query += f" AND ({of_pool} OR {_of_nodes(cluster, looked_for)})"
        executions = await _listed(client, query, history)
        history.entries += [
            entry
            for entry in await bounded(executions, CONCURRENCY, lambda execution: _removal(client, cluster, execution))
            if entry is not None
        ]
    if not question.kinds or not question.kinds.isdisjoint({EntryKind.COMMAND, EntryKind.COMMAND_END}):
        query = (
            f"{workflows_query(cluster, COMMAND_WORKFLOW)} "
            f"AND StartTime >= '{since.isoformat()}' AND StartTime < '{until.isoformat()}'"
        )
        executions = await _listed(client, query, history)
        for entries in await bounded(executions, CONCURRENCY, lambda execution: _command(client, cluster, execution)):
            history.entries += [entry for entry in entries if entry.at >= since]
    history.entries.sort(key=lambda entry: entry.at)
    return history


def _of_nodes(cluster: str, looked_for: Sequence[str]) -> str:
    """The part of a query that finds nodes by any of their names."""
    conditions = [
        f"{attribute} = '{value}'"
        for name in map(_quoted, looked_for)
        for attribute, value in (
            (names.NODE.name, name),
            (names.INSTANCE.name, name),
            ("WorkflowId", nodeclaim_id(cluster, name)),
        )
    ]
    return f"({' OR '.join(conditions)})"


def _names_of(execution: WorkflowExecution) -> set[str]:
    attributes = execution.typed_search_attributes
    others = (attributes.get(names.NODE, ""), attributes.get(names.INSTANCE, ""))
    return {execution.id.rpartition("/")[2], *others} - {""}


def _quoted(text: str) -> str:
    return text.replace("'", "")  # no name of Kubernetes or EC2 has one


async def _listed(client: Client, query: str, history: WorkflowHistory) -> list[WorkflowExecution]:
    executions = [item async for item in client.list_workflows(query, limit=MOST_WORKFLOWS + 1)]
    history.is_cut = history.is_cut or len(executions) > MOST_WORKFLOWS
    return executions[:MOST_WORKFLOWS]


async def _retention(client: Client) -> timedelta | None:
    try:
        answer = await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=client.namespace))
    except RPCError:  # who may list workflows may not be allowed this
        return None
    return answer.config.workflow_execution_retention_ttl.ToTimedelta() or None


async def _removal(client: Client, cluster: str, execution: WorkflowExecution) -> Entry | None:
    handle = client.get_workflow_handle(execution.id, run_id=execution.run_id, result_type=NodeClaimResult)
    try:
        result = await handle.result()
    except RPCError as error:
        _pass_over_deleted(error)
        return None
    uid = await execution.memo_value(UID_MEMO, "", type_hint=str)
    at = execution.close_time or execution.start_time
    return removal_entry(Origin(cluster, execution.id, execution.run_id), at, uid, result)


async def _command(client: Client, cluster: str, execution: WorkflowExecution) -> list[Entry]:
    """The start and the end of a command. A run that continues another one has no start."""
    handle = client.get_workflow_handle(execution.id, run_id=execution.run_id, result_type=DisruptResult)
    try:
        begun = await anext(handle.fetch_history_events(page_size=1))
        started = begun.workflow_execution_started_event_attributes
        (begin,) = await client.data_converter.decode(list(started.input.payloads), [DisruptInput])
        origin = Origin(cluster, execution.id, execution.run_id)
        first_run = started.first_execution_run_id
        entries: list[Entry] = []
        if begin.awaited is None:
            entries.append(command_entry(origin, execution.start_time, begin.command, first_run))
        if execution.status is WorkflowExecutionStatus.COMPLETED and execution.close_time is not None:
            since = begin.awaited.since if begin.awaited is not None else execution.start_time
            result = await handle.result()
            end = command_end_entry(origin, execution.close_time, begin.command, first_run, result, since)
            entries.append(end)
    except WorkflowFailureError:
        return entries
    except RPCError as error:
        _pass_over_deleted(error)
        return []
    return entries


def _pass_over_deleted(error: RPCError) -> None:
    """Pass over a workflow that Temporal deleted between the list and this request.

    Raises:
        RPCError: it is another error.
    """
    if error.status is not RPCStatusCode.NOT_FOUND:
        raise error
