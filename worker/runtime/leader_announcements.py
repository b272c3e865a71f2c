"""A leader makes itself known to the two workflows that ask the planner, and notices when one does not ask it.

The sign is the question itself: while a workflow's question is open here, it knows this leader. No message is needed
then. When a workflow has no question here for some looks in a row, its question is lost or went to another replica: the
leader announces itself again. Looks are counted and not seconds, so that a leader that stood still, and has perhaps
lost its Lease meanwhile, does not announce itself first of all.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from workflows import names

log = logging.getLogger(__name__)

LOOK = 2.0
"""Seconds between two looks."""
FIRST_PATIENCE, LONGEST_PATIENCE = 5, 150
"""After so many looks without a question a leader announces itself again; the number doubles each time."""


class Announcements:
    """Whether the workflows of one cluster ask the leader that serves the task queue ``queue``."""

    def __init__(self, client: Client, cluster: str, queue: str) -> None:
        self._client = client
        self._queue = queue
        self._open: Counter[str] = Counter()
        self._waits = {
            workflow_id: _Patience() for workflow_id in (names.provisioner_id(cluster), names.disruption_id(cluster))
        }

    @contextmanager
    def question_of(self, workflow_id: str) -> Iterator[None]:
        """A question of this workflow is open here."""
        self._open[workflow_id] += 1
        try:
            yield
        finally:
            self._open[workflow_id] -= 1

    async def run(self) -> None:
        """Announce the leader at once, and again when it is needed, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK)

    async def look(self) -> None:
        """One look at both workflows."""
        for workflow_id, patience in self._waits.items():
            if self._open[workflow_id]:
                patience.served()
            elif patience.over():
                await self._announce(workflow_id, patience)

    async def _announce(self, workflow_id: str, patience: _Patience) -> None:
        handle = self._client.get_workflow_handle(workflow_id)
        try:
            await handle.signal("planner_serves", self._queue)
            await handle.signal("planner_started")
        except RPCError as error:
            # A workflow that does not exist yet is started by a controller, with the queue in its input.
            if error.status is not RPCStatusCode.NOT_FOUND:
                return  # the watch on Temporal's health says so once a minute; the next look tries again
        if patience.repeated:
            log.info("No question came from %s: this leader announced itself again", workflow_id)
        patience.announced()


class _Patience:
    """How many looks without a question are left until the next announcement."""

    def __init__(self) -> None:
        self._left = 0
        self._next = FIRST_PATIENCE
        self.repeated = False

    def served(self) -> None:
        self._left = self._next = FIRST_PATIENCE
        self.repeated = True

    def over(self) -> bool:
        self._left -= 1
        return self._left < 0

    def announced(self) -> None:
        self._left, self._next = self._next, min(2 * self._next, LONGEST_PATIENCE)
        self.repeated = True
