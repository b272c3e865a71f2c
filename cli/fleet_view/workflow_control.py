"""What the view asks of Temporal: which nodes are blocked, commands, what one node says, and an operator's signals.

The view works without it. So Temporal's client is loaded late, and an outage is a note.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from tenon.errors import TenonError
from tenon.fleet.summary import CommandSummary
from tenon.kube.timestamps import time_text

ANSWER_SECONDS = 3.0
"""Seconds that the view waits for Temporal to answer."""
COMMAND_SECONDS = 10.0
"""The same for all commands under way, each of which is asked what it waits for."""
KEEP_FOR = timedelta(hours=24)


class ControlError(TenonError):
    """Temporal did not do what was asked. The message is one sentence."""


class WorkflowControl:
    """The workflows of a cluster's nodes."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self._client: Any = None
        self._commands: Any = None
        """Reads the commands under way, once they were asked for."""

    async def blocked(self) -> Collection[str]:
        """Return the NodeClaims that are blocked and need attention.

        Raises:
            ControlError: Temporal does not answer.
        """
        from temporalio.service import RPCError

        from workflows import names

        client = await self._connected()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                runs = client.list_workflows(names.blocked_nodeclaims_query(self.cluster))
                return frozenset([run.id.rsplit("/", 1)[-1] async for run in runs])
        except (RPCError, TimeoutError) as error:
            self._client = None
            raise ControlError(f"Temporal does not answer ({_why(error)})") from None

    async def commands(self) -> list[CommandSummary]:
        """Return the disruption commands whose workflows run, the oldest first, with the names of NodeClaims.

        Raises:
            ControlError: Temporal does not answer.
        """
        from temporalio.service import RPCError

        from cli.command_reading import RunningCommands, open_command

        client = await self._connected()
        self._commands = self._commands or RunningCommands()
        try:
            async with asyncio.timeout(COMMAND_SECONDS):
                views = await self._commands.read(client, self.cluster)
        except (RPCError, TimeoutError) as error:
            self._client = None
            raise ControlError(f"Temporal does not answer ({_why(error)})") from None
        return [open_command(view) for view in views]

    async def details(self, claim: str) -> str:
        """Return what the node's workflow says, as Markdown: state, timeline, what blocks it and what resolves that.

        Raises:
            ControlError: the workflow does not answer.
        """
        from tenon.node.remedies import report
        from tenon.node.timeline import details
        from workflows.nodeclaim import NodeClaimWorkflow

        state = await self._call(claim, lambda handle: handle.query(NodeClaimWorkflow.status))
        return f"{details(state)}\n\n{report(state)}"

    async def remedies(self, claim: str) -> list[str]:
        """Return what blocks the node, what resolves that, and what happens if no one acts, in lines.

        Raises:
            ControlError: the workflow does not answer.
        """
        from tenon.node.remedies import deadlines, remedies
        from tenon.node.timeline import blocked_text
        from workflows.nodeclaim import NodeClaimWorkflow

        state = await self._call(claim, lambda handle: handle.query(NodeClaimWorkflow.status))
        due = [f"{text} {time_text(instant)}" for text, instant in deadlines(state)]
        return [*([blocked_text(state)] if state.blocked else []), *remedies(state), *due]

    async def drain(self, claim: str, reason: str = "") -> str:
        """Ask the node to leave for this reason, and return a sentence for the operator.

        Raises:
            ControlError: the node or Temporal refuses, or does not answer.
        """
        from cli.actor import user_of_command
        from tenon.messages.node import Operator
        from workflows.nodeclaim import NodeClaimWorkflow

        request = Operator(by=await user_of_command("tenon top"), reason=reason)
        later = await self._ask(claim, NodeClaimWorkflow.ask_drain, NodeClaimWorkflow.drain, request)
        return f"{claim}: {later or 'draining'}"

    async def keep(self, claim: str, now: datetime, reason: str = "") -> str:
        """Protect the node from disruption and expiry for 24 hours, and return a sentence for the operator.

        Raises:
            ControlError: the node or Temporal refuses, or does not answer.
        """
        from cli.actor import user_of_command
        from tenon.messages.node import Keep
        from workflows.nodeclaim import NodeClaimWorkflow

        request = Keep(until=now + KEEP_FOR, by=await user_of_command("tenon top"), reason=reason)
        later = await self._ask(claim, NodeClaimWorkflow.ask_keep, NodeClaimWorkflow.keep, request)
        return f"{claim}: {later or f'kept until {time_text(request.until)}'}"

    async def _ask(self, claim: str, update: Any, signal: Any, request: Any) -> str:
        """Ask the node's workflow. If no worker answers, send a signal, and return that Temporal keeps it."""
        from temporalio.client import WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError

        try:
            answer = await self._call(
                claim,
                lambda handle: handle.execute_update(update, request, rpc_timeout=timedelta(seconds=ANSWER_SECONDS)),
            )
        except WorkflowUpdateRPCTimeoutOrCancelledError:
            await self._call(claim, lambda handle: handle.signal(signal, request))
            return "no worker answers, and Temporal keeps the request until one runs"
        except WorkflowUpdateFailedError as error:
            raise ControlError(f"{claim} refuses: {error.cause}") from None
        if not answer.accepted:
            raise ControlError(f"{claim} refuses: {answer.why}")
        return ""

    async def _call(self, claim: str, call: Any) -> Any:
        from temporalio.client import WorkflowQueryFailedError
        from temporalio.service import RPCError

        from worker.runtime.temporal.encrypted_payloads import PayloadCodecError
        from workflows import names

        client = await self._connected()
        try:
            async with asyncio.timeout(ANSWER_SECONDS * 3):
                return await call(client.get_workflow_handle(names.nodeclaim_id(self.cluster, claim)))
        except (RPCError, WorkflowQueryFailedError, TimeoutError) as error:
            raise ControlError(f"The workflow of {claim} does not answer ({_why(error)})") from None
        except PayloadCodecError as error:
            raise ControlError(f"The answer of {claim} cannot be read: {str(error).rstrip('.')}") from None

    async def _connected(self) -> Any:
        from worker.runtime.temporal.encrypted_payloads import PayloadCodecError
        from worker.runtime.temporal.temporal_client import TemporalError, connect

        if self._client is None:
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    self._client = await connect()
            except (TemporalError, PayloadCodecError) as error:
                raise ControlError(str(error).rstrip(".")) from None
            except TimeoutError:
                raise ControlError("Temporal does not answer") from None
        return self._client


def _why(error: BaseException) -> str:
    return str(error) or "no answer in time"
