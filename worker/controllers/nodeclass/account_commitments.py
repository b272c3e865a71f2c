"""Reads the account's Reserved Instances and Savings Plans, so that plans use what they cover first.

The right to read them may be missing. Then nodes count at their prices, as without the setting.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from activities.ec2.errors import EC2Error
from activities.provisioning.account_commitments import CommitmentStore
from tenon.ec2.commitments.coverage import AccountCommitments
from worker.cache.changes import Change
from worker.cache.cluster import ClusterCache
from worker.controllers.base import Controller

EVERY = 600.0
"""Seconds between two reads of what runs in the account. What was bought is read each hour."""
AFTER_REFUSAL = 3600.0
"""Seconds until the next read if AWS does not allow it."""


class Reader(Protocol):
    """What AWS says, as `activities.ec2.account_commitments.AccountCommitmentsReader` does."""

    def read(self, cluster: str, own_ids: Collection[str]) -> AccountCommitments:
        """Read how much the cluster may use of each commitment. Blocking."""
        ...


class AccountCommitmentsController(Controller):
    """Keeps the commitments in `CommitmentStore`."""

    name = "accountcommitments"
    topics = ()
    resync = 15.0

    def __init__(
        self,
        cache: ClusterCache,
        store: CommitmentStore,
        reader: Reader,
        cluster: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(cache)
        self._store = store
        self._reader = reader
        self._cluster = cluster
        self._clock = clock
        self._next_read = float("-inf")
        self._refusal_logged = False
        self._logged_count: int | None = None

    async def reconcile(self, changes: Sequence[Change]) -> float | None:  # noqa: ARG002
        """Read the commitments if it is time."""
        if self._clock() < self._next_read:
            return None
        own_ids = frozenset(claim.instance_id for claim in self._cache.claims if claim.instance_id)
        try:
            account = await asyncio.to_thread(self._reader.read, self._cluster, own_ids)
            self._store.replace(account)
            self._log_count(len(account.allowed))
            # Not after a failure: before the first read, plans know of no commitments.
            self._next_read = self._clock() + EVERY
        except EC2Error as error:
            if not error.unauthorized:
                raise
            self._next_read = self._clock() + AFTER_REFUSAL
            self._store.replace(None)
            self._logged_count = None
            if not self._refusal_logged:
                self._refusal_logged = True
                self._log.warning(
                    "AWS does not let the worker read Reserved Instances and Savings Plans, so plans do not use them",
                    extra={"error": error.explained},
                )
        return None

    def _log_count(self, count: int) -> None:
        """Log how many commitments plans know of, unless the last line says so."""
        if count != self._logged_count:
            self._logged_count = count
            self._log.info(
                "The controller read the account's Reserved Instances and Savings Plans", extra={"count": count}
            )
