"""Reports to the provisioner's workflow what EC2 refuses, in one message for all refusals of about a second.

The workflow stores it, so that an io process that starts knows what its predecessor learned. A process that holds
launches back reads it again every few seconds: other processes may have seen EC2 accept such launches, or an operator
may have terminated the workflow, and then the process reports everything again. A decision that depends on it asks the
workflow.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from activities import loggers
from activities.node.launch_breakers import LaunchBreakers
from tenon.messages.provisioning import LaunchReport
from worker.runtime.provisioner_reports import send_reports
from workflows import names
from workflows.provisioner import ProvisionerWorkflow

log = loggers.PROVISIONER

GATHER = 1.0
"""Seconds in which refusals gather before they are reported."""
LEARN_EVERY = 10.0
"""Seconds between two reads of what other processes report."""
ANSWERS_WITHIN = timedelta(seconds=5)
"""How long a launch or a decision waits for what the workflow stores."""
RETRY = 5.0
"""Seconds until a message that Temporal did not accept is sent again."""


async def stored_launches(client: Client, cluster: str) -> LaunchReport | None:
    """Return what the workflow stores; None if it does not answer."""
    handle = client.get_workflow_handle(names.provisioner_id(cluster))
    try:
        return await handle.query(ProvisionerWorkflow.launches, rpc_timeout=ANSWERS_WITHIN)
    except (RPCError, WorkflowQueryFailedError) as error:
        log.info("The workflow of the provisioner does not say what EC2 refuses", extra={"error": str(error)})
        return None


async def report_launches(client: Client, cluster: str, breakers: LaunchBreakers) -> None:
    """Read what the workflow stores, then report what is new and read what other processes report, until cancelled."""
    handle = client.get_workflow_handle(names.provisioner_id(cluster))
    while True:
        try:
            breakers.adopt(await handle.query(ProvisionerWorkflow.launches))
            break
        except (RPCError, WorkflowQueryFailedError) as error:
            if isinstance(error, RPCError) and error.status is RPCStatusCode.NOT_FOUND:
                break
            log.info("The workflow of the provisioner does not say what EC2 refuses", extra={"error": str(error)})
            await asyncio.sleep(RETRY)
    sending = send_reports(
        handle, breakers.news, breakers.report, gather=GATHER, retry=RETRY, acknowledge=breakers.acknowledge
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(sending, name="sent reports")
        group.create_task(_learn(client, cluster, breakers), name="reports of others")


async def _learn(client: Client, cluster: str, breakers: LaunchBreakers) -> None:
    """While this process launches or holds launches back, learn what other processes count and close."""
    while True:
        await breakers.active.wait()
        breakers.active.clear()
        stored = await stored_launches(client, cluster)
        if stored is None:
            breakers.active.set()
        else:
            breakers.learn(stored)
        await asyncio.sleep(LEARN_EVERY)
