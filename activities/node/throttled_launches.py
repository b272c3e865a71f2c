"""Says on a NodeClaim that its launch waits because EC2 throttles a call.

The call waits and is repeated for minutes in a thread, and would say nothing of that until it gives up. A NodeClaim is
written once a minute at most, because a throttled account may hold back hundreds of launches.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from activities import loggers
from activities.ec2.provider import Ec2Provider
from activities.kubernetes import nodeclaims
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from tenon.ec2.refusals.errors import throttled_text
from tenon.ec2.refusals.scopes import THROTTLED_REASON
from tenon.messages.base import ClaimRef

log = loggers.NODECLAIM_LIFECYCLE

PREPARING = (
    "CreateLaunchTemplate",
    "DescribeInstanceTypeOfferings",
    "DescribeInstanceTypes",
    "DescribeSpotPriceHistory",
    "DescribeSubnets",
)
"""The calls for which the preparation of a launch may wait."""
SENDING = ("CreateFleet", "DescribeInstances")
"""The calls for which a launch may wait."""
CHECKS_EVERY = 5.0
"""Seconds between two looks at a call that is not back. So a person sees within 15 seconds that it is throttled."""
WRITES_EVERY = timedelta(minutes=1)
"""How often a NodeClaim is written while its launch waits."""


class ThrottledLaunches:
    """Watches the calls of launches and writes on NodeClaims which of them EC2 throttles."""

    def __init__(
        self,
        kube: Kube,
        ec2: Ec2Provider,
        now: Callable[[], datetime],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._kube = kube
        self._ec2 = ec2
        self._now = now
        self._sleep = sleep

    @asynccontextmanager
    async def shown(self, ref: ClaimRef, calls: Collection[str]) -> AsyncIterator[None]:
        """Show on the claim, while the body runs, that EC2 throttles one of its calls.

        The next write of the launch replaces what is shown, because every outcome of a launch is written.
        """
        showing = asyncio.create_task(self._show(ref, calls))
        try:
            yield
        finally:
            showing.cancel()
            await asyncio.wait([showing])  # no write of it may follow that of the outcome
            if not showing.cancelled() and (error := showing.exception()) is not None:
                log.error("The worker failed to look for throttled calls", exc_info=error)

    async def _show(self, ref: ClaimRef, calls: Collection[str]) -> None:
        written: datetime | None = None
        while True:
            await self._sleep(CHECKS_EVERY)
            throttling, now = self._ec2.throttling(calls), self._now()
            if throttling is None or (written is not None and now - written < WRITES_EVERY):
                continue
            since = now - timedelta(seconds=throttling.lasted)
            next_try = now + timedelta(seconds=throttling.next_try)
            message = throttled_text(throttling.call, since, now, next_try)
            try:
                await nodeclaims.mark_launch_failed(self._kube, ref, THROTTLED_REASON, message, self._now)
            except (ApiError, nodeclaims.AnotherInstanceError) as error:
                log.info(
                    "The worker failed to write on a NodeClaim that EC2 throttles its launch",
                    extra={"nodeclaim": ref.name, "error": str(error)},
                )
            written = now
