"""Reports to the provisioner's workflow: news gathers for a moment, and what Temporal does not accept is sent again.

Each report holds everything that is known, so one that was lost needs no repair.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from temporalio.client import WorkflowHandle
from temporalio.service import RPCError

from activities import loggers
from tenon.lifecycle.messages.provisioning import LaunchReport
from workflows.provisioner import ProvisionerWorkflow

log = loggers.PROVISIONER

ANSWER_SECONDS = 5.0
"""How long Temporal has to answer."""


async def send_reports(
    provisioner: WorkflowHandle[Any, Any],
    news: asyncio.Event,
    report: Callable[[], LaunchReport | None],
    *,
    gather: float,
    retry: float,
    acknowledge: Callable[[LaunchReport], None] = lambda _: None,
) -> None:
    """Send a report whenever there is news, until cancelled.

    Args:
        provisioner: the workflow.
        news: set while there is something to report.
        report: returns all that is known; None if nothing of it holds any more.
        gather: seconds in which news gathers before a report.
        retry: seconds until a report that Temporal did not accept is sent again.
        acknowledge: receives each report that Temporal accepted.
    """
    while True:
        await news.wait()
        await asyncio.sleep(gather)
        news.clear()
        if (found := report()) is None:
            continue
        try:
            await provisioner.signal(
                ProvisionerWorkflow.launches_reported, found, rpc_timeout=timedelta(seconds=ANSWER_SECONDS)
            )
        except RPCError as error:
            log.info(
                "The worker failed to report to the provisioner what EC2 refuses and retries",
                extra={"error": error.message},
            )
            news.set()
            await asyncio.sleep(retry)
        else:
            acknowledge(found)
