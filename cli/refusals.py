"""Asks the provisioner's workflow of a cluster what EC2 refuses."""

from __future__ import annotations

from datetime import timedelta

from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from tenon.errors import TenonError
from tenon.lifecycle.messages.provisioning import LaunchReport
from workflows import names
from workflows.provisioner import ProvisionerWorkflow

QUERY_TIMEOUT = timedelta(seconds=10)


class RefusalsUnknownError(TenonError):
    """The provisioner's workflow does not answer. The message says why, without a period."""


async def refusals_of(client: Client, cluster: str, within: timedelta = QUERY_TIMEOUT) -> LaunchReport:
    """Return what EC2 refuses, or nothing if the cluster has no provisioner.

    Raises:
        RefusalsUnknownError: the workflow does not answer.
    """
    handle = client.get_workflow_handle(names.provisioner_id(cluster))
    try:
        return await handle.query(ProvisionerWorkflow.launches, rpc_timeout=within)
    except WorkflowQueryFailedError as error:
        why = str(error)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return LaunchReport()
        why = error.message
    raise RefusalsUnknownError(f"the provisioner's workflow does not say what EC2 refuses: {why}")
