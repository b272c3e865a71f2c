"""What the workflow of a node answers while it runs, and the closing record that it returns."""

from __future__ import annotations

import contextlib

from temporalio.client import Client
from temporalio.service import RPCError

from sandbox.cluster import Sandbox
from tenon.node.ids import nodeclaim_id
from tenon.node.state import NodeClaimResult, NodeState
from tests.workflows.waiting import until
from workflows.nodeclaim import NodeClaimWorkflow


async def state_of(client: Client, sandbox: Sandbox, claim: str) -> NodeState:
    """What a node's workflow answers; it is asked again until a worker answers in time."""
    handle = client.get_workflow_handle_for(NodeClaimWorkflow.run, nodeclaim_id(sandbox.cluster_name, claim))
    states: list[NodeState] = []

    async def is_answered() -> bool:
        with contextlib.suppress(RPCError):  # no worker answered in time
            states.append(await handle.query(NodeClaimWorkflow.status))
        return bool(states)

    await until(is_answered)
    return states[0]


async def life_of(client: Client, sandbox: Sandbox, claim: str) -> NodeClaimResult:
    """Wait until the node's life is over, and return its record."""
    handle = client.get_workflow_handle(nodeclaim_id(sandbox.cluster_name, claim), result_type=NodeClaimResult)
    life: NodeClaimResult = await handle.result()
    return life
