"""A leader announces itself to the two workflows that call the planner, and notices when one does not call it.

An open call of a workflow shows that the workflow knows this leader, and then no message is needed. If a workflow has
no open call here for several checks in a row, its call was lost or went to another replica, and the leader announces
itself again. Checks are counted instead of seconds, so that a leader that was stalled, and may have lost its Lease,
does not start by announcing itself.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from activities import loggers
from workflows import names

log = loggers.LEADER_ELECTION

PERIOD = 2.0
"""Seconds between two checks."""
FIRST_PATIENCE, MAX_PATIENCE = 5, 150
"""A leader announces itself again after this many checks without a call. The number doubles each time."""


class Announcements:
    """Tracks whether the workflows of one cluster call the leader that serves the task queue ``queue``."""

    def __init__(self, client: Client, cluster: str, queue: str) -> None:
        self._client = client
        self._queue = queue
        self._open: Counter[str] = Counter()
        self._waits = {
            workflow_id: _AnnouncementBackoff()
            for workflow_id in (names.provisioner_id(cluster), names.disruption_id(cluster))
        }

    @contextmanager
    def question_of(self, workflow_id: str) -> Iterator[None]:
        """Mark a call of this workflow as open for the duration of the context."""
        self._open[workflow_id] += 1
        try:
            yield
        finally:
            self._open[workflow_id] -= 1

    async def run(self) -> None:
        """Announce the leader immediately, and again whenever needed, until cancelled."""
        while True:
            await self.check()
            await asyncio.sleep(PERIOD)

    async def check(self) -> None:
        """Check both workflows once."""
        for workflow_id, backoff in self._waits.items():
            if self._open[workflow_id]:
                backoff.served()
            elif backoff.over():
                await self._announce(workflow_id, backoff)

    async def _announce(self, workflow_id: str, backoff: _AnnouncementBackoff) -> None:
        handle = self._client.get_workflow_handle(workflow_id)
        try:
            await handle.signal("planner_started", self._queue)
        except RPCError as error:
            # A controller starts a workflow that does not exist yet, with the queue in its input.
            if error.status is not RPCStatusCode.NOT_FOUND:
                return  # the Temporal health check logs it once a minute; the next check retries
        if backoff.repeated:
            log.info(
                "A workflow did not call this leader, which announced itself again", extra={"workflow": workflow_id}
            )
        backoff.announced()


class _AnnouncementBackoff:
    """Counts down the checks without a call until the next announcement."""

    def __init__(self) -> None:
        self._patience = 0
        self._next = FIRST_PATIENCE
        self.repeated = False

    def served(self) -> None:
        self._patience = self._next = FIRST_PATIENCE
        self.repeated = True

    def over(self) -> bool:
        self._patience -= 1
        return self._patience < 0

    def announced(self) -> None:
        self._patience, self._next = self._next, min(2 * self._next, MAX_PATIENCE)
        self.repeated = True
