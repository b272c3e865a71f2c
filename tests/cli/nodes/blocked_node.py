"""A node that is blocked, on a real Temporal server, and how tests run ``tenon node``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from temporalio.client import Client
from temporalio.common import SearchAttributePair, TypedSearchAttributes
from temporalio.testing import WorkflowEnvironment
from typer.testing import Result

from tenon.messages.base import ClaimRef
from tenon.node.state import NodeClaimInput
from tests.workflows.fake_activities import FakeWorld
from tests.workflows.guarded_node import state_of
from tests.workflows.node_workflow import Handle, live, newest
from tests.workflows.serving import serving
from workflows import names
from workflows.nodeclaim import NodeClaimWorkflow

NAME = "default-x1"
Tenon = Callable[..., Result]


@asynccontextmanager
async def listed(temporal: WorkflowEnvironment, cluster: str, world: FakeWorld) -> AsyncIterator[Handle]:
    """A live node with the attribute that the bridge starts every life with, and `tenon node list` looks for."""
    queue = names.task_queue(cluster)
    async with serving(temporal.client, cluster, world.all()):
        with temporal.with_time_skipping_disabled():
            await temporal.client.start_workflow(
                NodeClaimWorkflow.run,
                NodeClaimInput(claim=ClaimRef(cluster=cluster, name=NAME, uid="u1")),
                id=names.nodeclaim_id(cluster, NAME),
                task_queue=queue,
                search_attributes=TypedSearchAttributes([SearchAttributePair(names.CLUSTER, cluster)]),
            )
        yield await live(temporal.client, cluster)


async def blocked(client: Client, cluster: str) -> bool:
    """Whether the node is blocked, and Temporal's list knows."""
    query = f'{names.CLUSTER.name} = "{cluster}" AND {names.BLOCKED.name} = true'
    workflows = [run.id async for run in client.list_workflows(query)]
    return bool((await state_of(newest(client, cluster))).blocked) and names.nodeclaim_id(cluster, NAME) in workflows
