"""The closing record of a node, which its workflow returns."""

from __future__ import annotations

from temporalio.client import Client

from sandbox.cluster import Sandbox
from tenon.node.ids import nodeclaim_id
from tenon.node.state import NodeClaimResult


async def life_of(client: Client, sandbox: Sandbox, claim: str) -> NodeClaimResult:
    """Wait until the node's life is over, and return its record."""
    handle = client.get_workflow_handle(nodeclaim_id(sandbox.cluster_name, claim), result_type=NodeClaimResult)
    life: NodeClaimResult = await handle.result()
    return life
