"""Finds the workflows of nodes by the names that people have: a NodeClaim, its Node or its instance."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import typer
from temporalio.client import Client, WorkflowHandle, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ApiUnreachableError, ConfigError
from activities.kubernetes.resources import NODECLAIMS
from cli.context import Context, ContextError, resolve
from cli.fleet_view.reading import FleetError
from cli.nodes.visibility import of_node, whole_name_in_temporal
from cli.pauses import PauseError
from tenon.errors import TenonError
from tenon.fleet.order import FilterError
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.node_names import AmbiguousNameError, whole_name
from tenon.kube.selector_text import SelectorError
from tenon.node.ids import NODECLAIM_WORKFLOW, workflows_query
from worker.runtime.temporal.encrypted_payloads import PayloadCodecError
from worker.runtime.temporal.temporal_client import TemporalError, connect

T = TypeVar("T")
_NAME = re.compile(r"[A-Za-z0-9.-]+")


class NodeError(TenonError):
    """A node that cannot be found or controlled. The message is one sentence."""


def run(job: Coroutine[Any, Any, T]) -> T:
    """Run the job of a command, and exit with status 2 and a sentence if it cannot be done."""
    try:
        return asyncio.run(job)
    except (
        NodeError,
        PauseError,
        ContextError,
        FleetError,
        FilterError,
        AmbiguousNameError,
        SelectorError,
        TemporalError,
        PayloadCodecError,
        ApiUnreachableError,
        ApiError,
        ConfigError,
    ) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    except RPCError as error:
        print(refused(error), file=sys.stderr)
        raise typer.Exit(2) from None


def refused(error: RPCError) -> str:
    """Return that Temporal refused a call, as a sentence."""
    return f"Temporal refused: {error.message}."


def neither_answers(kubernetes: BaseException, temporal: BaseException) -> NodeError:
    """Return why a command that one of the two would be enough for cannot show anything, in a line for each."""
    return NodeError(f"{kubernetes}\n{refused(temporal) if isinstance(temporal, RPCError) else temporal}")


async def connected(cluster: str | None) -> tuple[Context, Client]:
    """Return the cluster of a command, and a client of its Temporal."""
    context = resolve(cluster)
    context.apply()
    return context, await connect()


async def claim_of(name: str) -> str:
    """Return the NodeClaim with this name, or the one whose Node or instance has it.

    Raises:
        AmbiguousNameError: it is the name of a Node without its domain, and several Nodes have it.
    """
    try:
        kube = await Kube.connect()
    except ConfigError:
        return name  # without the API server, assume a NodeClaim's name
    try:
        claim = claim_named(name, [ClaimRecord.of(body) for body in await kube.list(NODECLAIMS)])
    except ApiError as error:
        print(f"{name} is treated as the name of a NodeClaim: {error}", file=sys.stderr)
    else:
        return claim.name if claim is not None else name
    finally:
        await kube.close()
    return name


def claim_named(name: str, claims: Sequence[ClaimRecord]) -> ClaimRecord | None:
    """Return the NodeClaim with this name, or the one whose Node or instance has it; None if there is none.

    Raises:
        AmbiguousNameError: it is the name of a Node without its domain, and several Nodes have it.
    """
    by_name = {own: claim for claim in claims for own in (claim.instance_id, claim.node_name, claim.name) if own}
    return by_name.get(whole_name(name, (claim.node_name for claim in claims), by_name))


async def newest_of(name: str, cluster: str | None) -> WorkflowHandle[Any, Any] | None:
    """Return the newest workflow of a Node or an instance with this name, which may be gone; None if there is none."""
    if not _NAME.fullmatch(name):
        return None
    context, client = await connected(cluster)
    name = await whole_name_in_temporal(client, context.cluster, name)
    query = f"{workflows_query(context.cluster, NODECLAIM_WORKFLOW)} AND ({of_node(context.cluster, name)})"
    async for execution in client.list_workflows(query, limit=1):
        return client.get_workflow_handle(execution.id, run_id=execution.run_id)
    return None


def not_found(handle: WorkflowHandle[Any, Any], error: RPCError | WorkflowQueryFailedError) -> str:
    """Return why a workflow does not answer, as a sentence."""
    if isinstance(error, WorkflowQueryFailedError):
        return f"Workflow {handle.id} does not answer: {error}."
    if error.status is RPCStatusCode.NOT_FOUND:
        return f"No workflow {handle.id} is running: `tenon node list` shows the nodes whose workflow runs."
    return refused(error)
