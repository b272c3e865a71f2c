"""The launch breakers that the provisioner's workflow keeps."""

from __future__ import annotations

from temporalio.client import Client

from sandbox.cluster import Sandbox
from tenon.messages.provisioning import LaunchBreaker
from workflows import names
from workflows.provisioner import ProvisionerWorkflow


async def breaker_of(client: Client, sandbox: Sandbox, pool: str = "", *, node_class: str = "") -> LaunchBreaker | None:
    """The breaker of a NodePool or of an EC2NodeClass."""
    handle = client.get_workflow_handle(names.provisioner_id(sandbox.cluster_name))
    report = await handle.query(ProvisionerWorkflow.launches)
    return next(
        (breaker for breaker in report.breakers if (breaker.pool, breaker.node_class) == (pool, node_class)), None
    )
