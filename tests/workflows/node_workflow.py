"""A node's workflow on a Temporal server that skips time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

from temporalio.client import Client, WorkflowHandle
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import WorkflowEnvironment

from tenon.messages.base import ClaimRef
from tenon.messages.node import Poke
from tenon.node.state import NodeClaimInput, NodeClaimResult, NodeState, Stage
from tests.workflows.fake_activities import FakeWorld
from tests.workflows.serving import serving
from tests.workflows.waiting import until
from workflows import names
from workflows.nodeclaim import MAX_CONTINUES_AFTER, NodeClaimWorkflow

Handle = WorkflowHandle[NodeClaimWorkflow, NodeClaimResult]


@asynccontextmanager
async def node(
    temporal: WorkflowEnvironment,
    cluster: str,
    world: FakeWorld,
    *,
    skip_time: bool = True,
    **options: Any,
) -> AsyncIterator[Handle]:
    """A node's workflow just begun, with a worker that serves it; its clock skips waits unless told otherwise.

    ``options``: those of that worker.
    """
    queue = names.task_queue(cluster)
    async with serving(temporal.client, cluster, world.all(), **options):
        with nullcontext() if skip_time else temporal.with_time_skipping_disabled():
            handle = await temporal.client.start_workflow(
                NodeClaimWorkflow.run,
                NodeClaimInput(claim=ClaimRef(cluster=cluster, name="default-x1", uid="u1")),
                id=names.nodeclaim_id(cluster, "default-x1"),
                task_queue=queue,
            )
        yield handle


async def stage(handle: Handle) -> Stage:
    """Where the newest run of the node is."""
    state: NodeState = await handle.query(NodeClaimWorkflow.status)
    return state.stage


def newest(client: Client, cluster: str) -> Handle:
    """A handle that follows continue-as-new."""
    return client.get_workflow_handle_for(NodeClaimWorkflow.run, names.nodeclaim_id(cluster, "default-x1"))


async def live(client: Client, cluster: str) -> Handle:
    """Bring the node to rest: a Node joins and becomes ready."""
    handle = newest(client, cluster)
    await until(lambda: at(handle, Stage.REGISTERING))
    await handle.signal(NodeClaimWorkflow.poke, Poke(node_name="ip-10-0-0-1"))
    await until(lambda: at(handle, Stage.INITIALIZING))
    await handle.signal(NodeClaimWorkflow.poke, Poke(node_name="ip-10-0-0-1", node_ready=True))
    await until(lambda: at(handle, Stage.LIVE))
    return handle


async def rested(temporal: WorkflowEnvironment, cluster: str) -> Handle:
    """Bring the node to rest, if it is not, and wait until the run that started it has continued as new."""
    handle = newest(temporal.client, cluster)
    if not await at(handle, Stage.LIVE):
        await live(temporal.client, cluster)
    started_in = (await handle.describe()).run_id
    await temporal.fast_forward(handle, MAX_CONTINUES_AFTER)

    async def continued() -> bool:
        return (await handle.describe()).run_id != started_in and await at(handle, Stage.LIVE)

    await until(continued)
    return handle


async def at(handle: Handle, expectation: Stage) -> bool:
    """Whether the newest run is at this stage. A run that follows another within a second begins a second later."""
    try:
        return await stage(handle) is expectation
    except RPCError as error:
        if error.status is not RPCStatusCode.FAILED_PRECONDITION:
            raise
        return False


async def blocked(handle: Handle) -> bool:
    """Whether the node says that something keeps it from leaving."""
    state: NodeState = await handle.query(NodeClaimWorkflow.status)
    return bool(state.blocked)


async def waits_for_budgets(handle: Handle) -> bool:
    """Whether an expired node has its answer. A run that follows another within a second begins a second later."""
    try:
        state: NodeState = await handle.query(NodeClaimWorkflow.status)
    except RPCError:
        return False
    return state.expiry_waits_until is not None and not state.expired


async def called(world: FakeWorld, name: str) -> bool:
    return name in world.calls


def lost_answer() -> ApplicationError:
    """The failure of a launch that Temporal does not retry any more."""
    return ApplicationError("no answer", type="Timeout", non_retryable=True)


async def called_times(world: FakeWorld, name: str, times: int) -> bool:
    return world.calls.count(name) >= times
