"""The launch breakers that the provisioner's workflow keeps."""

from __future__ import annotations

from temporalio.client import Client
from temporalio.service import RPCError

from sandbox.cluster import Sandbox
from tenon.messages.provisioning import LaunchBreaker
from workflows import names
from workflows.provisioner import ProvisionerWorkflow


async def breaker_of(client: Client, sandbox: Sandbox, pool: str = "", *, node_class: str = "") -> LaunchBreaker | None:
    """The breaker of a NodePool or of an EC2NodeClass; None as well if no worker answers in time."""
    handle = client.get_workflow_handle(names.provisioner_id(sandbox.cluster_name))
    try:
        report = await handle.query(ProvisionerWorkflow.launches)
    except RPCError:
        return None
    return next(
        (breaker for breaker in report.breakers if (breaker.pool, breaker.node_class) == (pool, node_class)), None
    )
