"""Joins what Kubernetes and Temporal say of all nodes. If one of them is away, the other has the list."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar

from temporalio.client import Client, WorkflowExecution, WorkflowQueryFailedError
from temporalio.service import RPCError

from activities.clock import utc_now
from activities.kubernetes.bounded_concurrency import bounded
from activities.kubernetes.errors import ApiError, ConfigError
from cli.command_reading import CommandView, RunningCommands, open_command
from cli.context import ContextError
from cli.fleet_view.reading import FleetError, read_kubernetes
from cli.nodes.workflows import connected, neither_answers, refused
from cli.refusals import (
    QUERY_TIMEOUT,
    RefusalsUnknownError,
    purchase_pauses_of,
    refusals_of,
    unplaced_pods_of,
)
from tenon.fleet.disruption_state import DisruptionState
from tenon.fleet.document import Fleet
from tenon.fleet.rows import NodeRow
from tenon.fleet.waiting import with_waits
from tenon.messages.provisioning import LaunchReport, PendingPods, PurchasePause
from tenon.node.state import NodeState, Stage
from worker.runtime.temporal.encrypted_payloads import PayloadCodecError
from worker.runtime.temporal.temporal_client import TemporalError
from workflows import names
from workflows.nodeclaim import NodeClaimWorkflow

T = TypeVar("T")
CONCURRENCY = 10
"""Maximum number of blocked nodes that are queried concurrently."""
_STAGES = {
    "launching": Stage.LAUNCHING,
    "starting": Stage.INITIALIZING,
    "live": Stage.LIVE,
    "rebooting": Stage.REBOOTING,
    "leaving": Stage.DRAINING,
    "ended": Stage.ENDED,
}
"""By the search attribute, which is coarser than the stages: a stage that it stands for."""


@dataclass(frozen=True, slots=True)
class NodeList:
    """All nodes with a NodeClaim or a workflow."""

    rows: Sequence[NodeRow]
    now: datetime
    reasons: Mapping[str, str] = field(default_factory=dict)
    """By NodeClaim, the reason of its removal in Temporal's list."""
    states: Mapping[str, NodeState] = field(default_factory=dict)
    """By NodeClaim, the state of each blocked node."""
    refusals: LaunchReport = field(default_factory=LaunchReport)
    pauses: Sequence[PurchasePause] = ()
    unplaced: Sequence[PendingPods] = ()
    """The pods for which no node is bought."""
    commands: Sequence[CommandView] = ()
    """The disruption commands that wait for an approval."""
    present: Collection[str] = ()
    """All NodeClaims, also those of rows that are not wanted."""
    notes: Sequence[str] = ()
    """What the list goes without, and why, in sentences."""

    @property
    def is_empty(self) -> bool:
        """Whether there is no node, and nothing else that a person must know."""
        refusals = self.refusals
        others = (refusals.breakers, refusals.waits, refusals.unavailable, self.pauses, self.unplaced, self.commands)
        return not self.rows and not any(others)


async def read_list(
    cluster: str | None,
    *,
    blocked: bool = False,
    selects: Callable[[NodeRow], bool] = lambda _: True,
    running_commands: RunningCommands | None = None,
) -> NodeList:
    """Return the nodes, and if only blocked ones are wanted, also what else is stuck.

    That are pods that get no node, commands that wait for an approval, and what EC2 and kube-scheduler refuse.

    Args:
        cluster: its name; None for that of the context.
        blocked: whether only blocked nodes are wanted.
        selects: which nodes are wanted.
        running_commands: what was read of commands before, for a list that is read again and again.

    Raises:
        NodeError: neither Kubernetes nor Temporal answers.
        TemporalError, ContextError, RPCError: only Temporal knows which nodes are blocked, and it does not answer.
    """
    in_kubernetes, in_temporal = await asyncio.gather(read_kubernetes(), _executions(cluster), return_exceptions=True)
    for problem in (in_kubernetes, in_temporal):
        if isinstance(problem, BaseException) and not isinstance(
            problem, FleetError | ApiError | ConfigError | TemporalError | ContextError | RPCError
        ):
            raise problem
    notes = [f"{note}." for note in in_kubernetes.notes] if isinstance(in_kubernetes, Fleet) else []
    if isinstance(in_temporal, BaseException):
        if isinstance(in_kubernetes, BaseException):
            raise neither_answers(in_kubernetes, in_temporal)
        if blocked:
            raise in_temporal
        why = refused(in_temporal) if isinstance(in_temporal, RPCError) else in_temporal
        notes.append(f"From Kubernetes alone, without blocked nodes: {why}")
        rows = [row for row in in_kubernetes.rows if row.claim]
        present = {row.claim for row in rows}
        return NodeList([row for row in rows if selects(row)], utc_now(), present=present, notes=notes)
    client, name, executions = in_temporal
    kubernetes_answers = not isinstance(in_kubernetes, BaseException)
    if isinstance(in_kubernetes, BaseException):
        notes.append(f"From Temporal alone, without Nodes, use and prices: {in_kubernetes}")
        in_kubernetes = Fleet([], [], [], utc_now())
    joined = _joined(in_kubernetes.rows, executions, kubernetes_answers=kubernetes_answers)
    rows = [row for row in joined if selects(row) and (row.is_blocked or not blocked)]
    present = {row.claim for row in joined}
    states = await _states(client, name, [row.claim for row in rows if row.is_blocked], notes)
    commands = await _waiting_commands(running_commands or RunningCommands(), client, name, in_kubernetes.rows, notes)
    rows = with_waits(rows, map(open_command, commands), in_kubernetes.frozen)
    reasons = {_claim_of(execution): _text(execution, names.REASON.name) for execution in executions}
    if not blocked:
        return NodeList(rows, utc_now(), reasons, states, present=present, notes=notes)
    refusals = await _or_nothing(refusals_of(client, name), LaunchReport(), notes)
    pauses = await _or_nothing(purchase_pauses_of(client, name), (), notes)
    unplaced = _still_pending(await _or_nothing(unplaced_pods_of(client, name), (), notes), in_kubernetes)
    return NodeList(rows, utc_now(), reasons, states, refusals, pauses, unplaced, commands, present, notes)


def _still_pending(groups: Sequence[PendingPods], fleet: Fleet) -> list[PendingPods]:
    """The groups of the last plan of which a pod still waits: it knows nothing of pods that were deleted since.

    Without an answer of Kubernetes all groups stay.
    """
    keys = {pod.key for pod in fleet.pending_pods}
    return [group for group in groups if not fleet.rows or not keys.isdisjoint(group.pods)]


async def _waiting_commands(
    running_commands: RunningCommands, client: Client, cluster: str, rows: Sequence[NodeRow], notes: list[str]
) -> list[CommandView]:
    names_of_nodes = {row.claim: row.node for row in rows if row.node}
    try:
        return await running_commands.awaiting_approval(client, cluster, names_of_nodes)
    except RPCError as error:
        notes.append(f"The commands under way cannot be read: {error}")
        return []


async def _executions(cluster: str | None) -> tuple[Client, str, list[WorkflowExecution]]:
    context, client = await connected(cluster)
    query = names.open_nodeclaims_query(context.cluster)
    return client, context.cluster, [execution async for execution in client.list_workflows(query)]


def _joined(
    rows: Sequence[NodeRow], executions: Sequence[WorkflowExecution], *, kubernetes_answers: bool
) -> list[NodeRow]:
    """The rows of Kubernetes with what only Temporal knows, and the workflows whose NodeClaim is gone or not read."""
    blocked = {_claim_of(execution) for execution in executions if _value(execution, names.BLOCKED.name)}
    claims = {row.claim for row in rows}
    own = [replace(row, is_blocked=row.claim in blocked) for row in rows if row.claim]
    others = [_row(execution) for execution in executions if _claim_of(execution) not in claims]
    return [*own, *(replace(row, is_workflow_only=kubernetes_answers) for row in others)]


def _row(execution: WorkflowExecution) -> NodeRow:
    """A row of a workflow alone. It has no use and no price."""
    expires = _value(execution, names.EXPIRES.name)
    stage = _STAGES.get(_text(execution, names.STAGE.name), Stage.LAUNCHING)
    reason = _text(execution, names.REASON.name)
    return NodeRow(
        node=_text(execution, names.NODE.name),
        claim=_claim_of(execution),
        pool=_text(execution, names.POOL.name),
        instance_type=_text(execution, names.INSTANCE_TYPE.name),
        zone=_text(execution, names.ZONE.name),
        capacity_type=_text(execution, names.CAPACITY_TYPE.name),
        created=execution.start_time,
        stage=stage,
        ready=False,
        pods=0,
        pod_limit=0,
        cpu_requests=0,
        cpu=0,
        memory_requests=0,
        memory=0,
        price=None,
        disruption=DisruptionState.LEAVING if stage.leaving else DisruptionState.STARTING,
        why=reason,
        instance=_text(execution, names.INSTANCE.name),
        is_blocked=bool(_value(execution, names.BLOCKED.name)),
        expires=expires if isinstance(expires, datetime) else None,
    )


def _claim_of(execution: WorkflowExecution) -> str:
    return execution.id.rsplit("/", 1)[-1]


def _value(execution: WorkflowExecution, name: str) -> Any:
    return next((pair.value for pair in execution.typed_search_attributes if pair.key.name == name), None)


def _text(execution: WorkflowExecution, name: str) -> str:
    return str(_value(execution, name) or "")


async def _states(client: Client, cluster: str, claims: Sequence[str], notes: list[str]) -> dict[str, NodeState]:
    async def state(claim: str) -> NodeState | None:
        handle = client.get_workflow_handle_for(NodeClaimWorkflow.run, names.nodeclaim_id(cluster, claim))
        try:
            return await handle.query(NodeClaimWorkflow.status, rpc_timeout=QUERY_TIMEOUT)
        except (WorkflowQueryFailedError, RPCError, PayloadCodecError) as error:
            notes.append(f"{claim} does not say what blocks it: {error}")
            return None

    answers = await bounded(claims, CONCURRENCY, state)
    return {state.claim.name: state for state in answers if state is not None}


async def _or_nothing(answer: Awaitable[T], nothing: T, notes: list[str]) -> T:
    """Return the answer of the provisioner's workflow, or ``nothing`` if it does not answer."""
    try:
        return await answer
    except (RefusalsUnknownError, PayloadCodecError) as error:
        notes.append(str(error))
        return nothing
