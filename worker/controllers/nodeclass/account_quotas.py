"""Reads the account's vCPU quotas, so that plans leave out what EC2 would refuse.

The right to read them may be missing. Then EC2 refuses, as without this controller.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from activities.ec2.errors import EC2Error
from activities.provisioning.launch_refusals import LaunchRefusals
from tenon.ec2.refusals.known_quotas import KnownQuotas
from worker.cache.changes import Change
from worker.cache.cluster import ClusterCache
from worker.controllers.base import Controller

EVERY = 600.0
"""Seconds between two reads. A read costs two calls, and one more for each thousand instances of the account."""
EVERY_WHILE_PODS_WAIT = 60.0
"""Seconds between two reads while pods wait for a quota, so that they notice that it was raised."""
AFTER_REFUSAL = 3600.0
"""Seconds until the next read if AWS does not allow it."""


class Quotas(Protocol):
    """What AWS says, as `activities.ec2.account_quotas.AccountQuotas` does."""

    def read(self) -> KnownQuotas:
        """Read quotas and instances. Blocking."""
        ...


class AccountQuotasController(Controller):
    """Keeps the quotas in `LaunchRefusals`."""

    name = "accountquotas"
    topics = ()
    resync = 15.0

    def __init__(
        self,
        cache: ClusterCache,
        refusals: LaunchRefusals,
        quotas: Quotas,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(cache)
        self._refusals = refusals
        self._quotas = quotas
        self._clock = clock
        self._read_at = float("-inf")
        self._wait = 0.0
        self._refusal_logged = False

    async def reconcile(self, changes: Sequence[Change]) -> float | None:  # noqa: ARG002
        """Read the quotas if it is time."""
        every = EVERY_WHILE_PODS_WAIT if self._refusals.waits_for_quota() else EVERY
        if self._clock() < self._read_at + max(self._wait, every):
            return None
        try:
            self._refusals.replace_quotas(await asyncio.to_thread(self._quotas.read))
            # Not after a failure: before the first read, plans know of no quota.
            self._read_at, self._wait = self._clock(), 0.0
        except EC2Error as error:
            if not error.unauthorized:
                raise
            self._read_at, self._wait = self._clock(), AFTER_REFUSAL
            self._refusals.replace_quotas(None)
            if not self._refusal_logged:
                self._refusal_logged = True
                self._log.info(
                    "AWS does not let the worker read the account's vCPU quotas, so EC2 is asked and may refuse",
                    extra={"error": error.explained},
                )
        return None
