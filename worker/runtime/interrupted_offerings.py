"""Reports to the provisioner's workflow which spot offerings EC2 takes back, so that no plan buys there again at once.

The replica that received a notice may not be the one that plans. The workflow passes what it knows to each plan.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime

from temporalio.client import Client

from activities.clock import utc_now
from tenon.ec2.avoided import UNAVAILABLE_OFFERINGS_TTL, grouped
from tenon.kube.offerings import OfferingKey
from tenon.lifecycle.messages.launch import OfferingRef
from tenon.lifecycle.messages.provisioning import LaunchReport
from worker.runtime.provisioner_reports import send_reports
from workflows import names

GATHER = 0.1
"""Seconds in which notices gather before they are reported. A batch of pods stays open longer than that."""
RETRY = 2.0
"""Seconds until a message that Temporal did not accept is sent again."""


class InterruptedOfferings:
    """The offerings that EC2 took back within the last minutes."""

    def __init__(self, now: Callable[[], datetime] = utc_now) -> None:
        self._now = now
        self._until: dict[OfferingKey, datetime] = {}
        self._news = asyncio.Event()

    def sold_out(self, offerings: Iterable[OfferingRef]) -> None:
        """Record offerings that EC2 takes back (AWS-041, AWS-140)."""
        for offering in offerings:
            self._until[offering.key] = self._now() + UNAVAILABLE_OFFERINGS_TTL
            self._news.set()

    async def report(self, client: Client, cluster: str) -> None:
        """Report what is new until cancelled."""
        provisioner = client.get_workflow_handle(names.provisioner_id(cluster))
        await send_reports(provisioner, self._news, self._current, gather=GATHER, retry=RETRY)

    def _current(self) -> LaunchReport | None:
        now = self._now()
        self._until = {key: until for key, until in self._until.items() if until > now}
        return LaunchReport(refused=grouped(self._until)) if self._until else None
