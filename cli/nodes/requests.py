"""Asks the workflow of a node for something, and says who asks and why."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import typer
from temporalio.client import (
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.service import RPCError

from cli.nodes.workflows import NodeError, not_found
from tenon.messages.node import Keep, Operator, OperatorAnswer, RebootAnswer, RebootRequest
from tenon.node.operator_requests import why_invalid
from tenon.node.reboot_record import operation_id
from tenon.node.state import NodeState
from workflows.nodeclaim import NodeClaimWorkflow

ANSWERED_WITHIN = timedelta(seconds=15)
"""How long to wait for the answer of a node's workflow. Temporal does not keep an update that no worker has taken."""
RequestKind = tuple[Any, Any]
"""An update of the node's workflow, and the signal that asks for the same."""
DRAIN: RequestKind = (NodeClaimWorkflow.ask_drain, NodeClaimWorkflow.drain)
FORCE_DRAIN: RequestKind = (NodeClaimWorkflow.ask_force_drain, NodeClaimWorkflow.force_drain)
EXPIRE: RequestKind = (NodeClaimWorkflow.ask_expire, NodeClaimWorkflow.expire)
KEEP: RequestKind = (NodeClaimWorkflow.ask_keep, NodeClaimWorkflow.keep)
Request = Callable[[WorkflowHandle[Any, Any], str, Operator, datetime], Awaitable[bool]]
"""Asks the workflow of one node, by what the operator calls it, at a time. Returns whether it has answered.

Raises NodeError if the node refuses.
"""
COMMAND_TIMELINE = "the timeline of the command"
NO_REASON = "an operator's request"
"""What a reboot is for if the operator does not say why. Its condition and its events cannot say nothing."""


def asked_reason(reason: str | None, place: str = "the timeline of the node") -> str:
    """Return the reason, and ask for it in a terminal if there is none. Scripts are not asked.

    ``place``: where people read it.
    """
    if reason is None and is_interactive():
        answer: str = typer.prompt(f"Why (for {place})", default="", show_default=False)
        return answer
    return reason or ""


def is_interactive() -> bool:
    """Whether a person sits at the terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


async def ask(
    handle: WorkflowHandle[Any, Any],
    name: str,
    request_kind: RequestKind,
    operator: Operator,
    until: datetime | None = None,
) -> bool:
    """Ask the node's workflow for something. If no worker answers, send a signal, which Temporal keeps.

    Args:
        handle: the node's workflow.
        name: what the operator calls the node.
        request_kind: what is asked.
        operator: who asks, and why.
        until: until when the node is kept.

    Returns:
        Whether the node has answered.

    Raises:
        NodeError: the node does not do it, or there is no such node.
    """
    update, signal = request_kind
    request = operator if until is None else Keep(**operator.model_dump(), until=until)
    try:
        try:
            answer: OperatorAnswer = await handle.execute_update(update, request, rpc_timeout=ANSWERED_WITHIN)
        except WorkflowUpdateRPCTimeoutOrCancelledError:
            await handle.signal(signal, request)
            return False
    except WorkflowUpdateFailedError as error:
        raise NodeError(f"{name} refuses: {error.cause}") from None
    except RPCError as error:
        raise NodeError(not_found(handle, error)) from None
    if not answer.accepted:
        raise NodeError(f"{name} refuses: {answer.why}.")
    return True


def asking(request_kind: RequestKind, until: datetime | None = None) -> Request:
    """Return what asks a node for this; ``until`` says until when it is kept."""

    async def request(
        handle: WorkflowHandle[Any, Any],
        name: str,
        operator: Operator,
        at: datetime,  # noqa: ARG001 - the workflow notes when the request arrives
    ) -> bool:
        return await ask(handle, name, request_kind, operator, until)

    return request


def asking_to_reboot(drain_seconds: float | None) -> Request:
    """Return what asks a node to reboot.

    ``drain_seconds``: how long pods are evicted first; None for the bound of the NodeClaim.
    """

    async def request(handle: WorkflowHandle[Any, Any], name: str, operator: Operator, at: datetime) -> bool:
        if why := why_invalid(operator):
            raise NodeError(f"{name} is not asked: {why}")
        try:
            state: NodeState = await handle.query(NodeClaimWorkflow.status)
            wish = RebootRequest(
                operation_id=operation_id(state.claim.uid, at),
                reason=operator.reason or NO_REASON,
                ticket=operator.ticket,
                drain_seconds=drain_seconds,
                requested_at=at,
                actor=operator.by,
            )
            answer: RebootAnswer = await handle.execute_update(
                NodeClaimWorkflow.reboot, wish, id=wish.operation_id, rpc_timeout=ANSWERED_WITHIN
            )
        except WorkflowUpdateRPCTimeoutOrCancelledError:
            raise NodeError(f"No worker answers for {name}: start one, and ask for the reboot again.") from None
        except WorkflowUpdateFailedError as error:
            raise NodeError(f"{name} refuses: {error.cause}") from None
        except (WorkflowQueryFailedError, RPCError) as error:
            raise NodeError(not_found(handle, error)) from None
        if not answer.accepted:
            raise NodeError(f"{name} does not reboot: {answer.why}.")
        return True

    return request
