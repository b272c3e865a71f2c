"""Asks the disruption workflow of a live cluster which commands are under way or wait for a person."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from temporalio.client import WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from cli.context import ContextError
from cli.simulating.refusals import ANSWERS_WITHIN, connected
from tenon.messages.disruption import OpenCommand
from worker.runtime.temporal.encrypted_payloads import PayloadCodecError
from worker.runtime.temporal.temporal_client import TemporalError
from workflows import names
from workflows.disruption import DisruptionWorkflow


def read_open_commands(notes: list[str]) -> Mapping[str, OpenCommand]:
    """Return the open and the failed commands, by NodeClaim, as the worker's passes have them.

    A note says so if they are not known. Then nodes of commands that wait for a person look free.
    """
    try:
        return asyncio.run(_ask())
    except (ContextError, TemporalError, PayloadCodecError, TimeoutError, WorkflowQueryFailedError, RPCError) as error:
        why = str(error).rstrip(".") or f"Temporal gives no answer within {ANSWERS_WITHIN.total_seconds():.0f} s"
        notes.append(f"commands under way, and those that wait for approval, are not known: {why}")
        return {}


async def _ask() -> Mapping[str, OpenCommand]:
    async with asyncio.timeout(ANSWERS_WITHIN.total_seconds()):
        context, client = await connected()
        handle = client.get_workflow_handle(names.disruption_id(context.cluster))
        try:
            return await handle.query(DisruptionWorkflow.open_commands, rpc_timeout=ANSWERS_WITHIN)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return {}
            raise
