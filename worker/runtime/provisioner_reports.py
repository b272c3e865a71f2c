"""Reports to the provisioner's workflow: news gathers for a moment, and what Temporal does not accept is sent again.

Each report holds everything that is known, so one that was lost needs no repair.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError

from activities import loggers
from activities.clock import utc_now
from tenon.ec2.refusals.backoff import Backoff
from tenon.ec2.refusals.unavailable import UNAVAILABLE_OFFERINGS_TTL, grouped
from tenon.kube.offerings import OfferingKey
from tenon.messages.offerings import OfferingRef
from tenon.messages.provisioning import LaunchReport
from workflows import names
from workflows.provisioner import ProvisionerWorkflow

GATHER = 0.1
"""Seconds in which notices gather before they are reported.

A batch that the pods of the interrupted node open stays open longer than that. Another batch may close before: see
`tenon.provisioning.interrupted_offerings`.
"""
RETRY = 2.0
"""Seconds until a message that Temporal did not accept is sent again."""
log = loggers.PROVISIONER
ANSWER_SECONDS = 5.0
"""How long Temporal has to answer."""


class InterruptedOfferings:
    """The offerings that EC2 took back within the last minutes, so that no plan buys there again at once.

    The replica that received a notice may not be the one that plans. The workflow passes what it knows to each plan.
    """

    def __init__(self, now: Callable[[], datetime] = utc_now) -> None:
        self._now = now
        self._backoffs: dict[OfferingKey, Backoff] = {}
        self._news = asyncio.Event()

    def mark_unavailable(self, offerings: Iterable[OfferingRef]) -> None:
        """Record offerings that EC2 takes back (AWS-041, AWS-140)."""
        for offering in offerings:
            self._backoffs[offering.key] = Backoff(self._now() + UNAVAILABLE_OFFERINGS_TTL)
            self._news.set()

    async def report(self, client: Client, cluster: str) -> None:
        """Report what is new until cancelled."""
        provisioner = client.get_workflow_handle(names.provisioner_id(cluster))
        await send_reports(provisioner, self._news, self._current, gather=GATHER, retry=RETRY)

    def _current(self) -> LaunchReport | None:
        now = self._now()
        self._backoffs = {key: backoff for key, backoff in self._backoffs.items() if backoff.is_active(now)}
        return LaunchReport(unavailable=grouped(self._backoffs)) if self._backoffs else None


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
        if (message := report()) is None:
            continue
        try:
            await provisioner.signal(
                ProvisionerWorkflow.launches_reported, message, rpc_timeout=timedelta(seconds=ANSWER_SECONDS)
            )
        except RPCError as error:
            log.info(
                "The worker failed to report to the provisioner what EC2 refuses and retries",
                extra={"error": error.message},
            )
            news.set()
            await asyncio.sleep(retry)
        else:
            acknowledge(message)
