"""Which pending pods want a decision, and when a batch of them is complete.

What was decided is mostly read back from the cluster: a pod that a living NodeClaim was bought for is decided. Only
pods that were planned onto existing nodes, or that fit nowhere, are remembered here; a restart merely asks again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from activities.metrics import QUEUE_DEPTH
from activities.planning.ports import ClusterView
from tenon.lifecycle.messages import AwaitBatchInput, BatchSummary
from tenon.scheduling.model import Pod

log = logging.getLogger("controller.provisioner")

NOMINATED_FOR = timedelta(seconds=20)
"""How long kube-scheduler has to bind a pod to the node that a plan found for it (CTL-33)."""
BOUGHT_FOR = timedelta(seconds=2)
"""How long the cache may take to show a NodeClaim; from then on the claim itself says which pods it is for."""
FIRST_RETRY = timedelta(seconds=10)
LONGEST_RETRY = timedelta(minutes=5)


@dataclass(slots=True)
class _Answered:
    again_at: datetime
    attempts: int
    fingerprint: object
    """None: valid whatever changes."""
    node: str = ""


class Batcher:
    """The pods that wait for a decision."""

    def __init__(self, view: ClusterView, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._view = view
        self._now = now
        self._answered: dict[str, _Answered] = {}
        self._turn = 0

    def undecided(self) -> list[Pod]:
        """Pending pods without a valid answer."""
        now = self._now()
        covered = self._covered(now)
        fingerprint = self._view.fingerprint()
        pending = self._view.pending_pods()
        self._forget({pod.uid for pod in pending})
        return [pod for pod in pending if pod.uid not in covered and not self._valid(pod.uid, now, fingerprint)]

    def nominated(self, placements: Mapping[str, Iterable[Pod]]) -> None:
        """These pods were planned onto nodes (by name) that exist or are on their way."""
        for node, pods in placements.items():
            self._decided((pod.uid for pod in pods), NOMINATED_FOR, node)

    def promised(self) -> dict[str, list[Pod]]:
        """The nominated pods that still wait, by node: their room is taken, and rules between pods count them."""
        now = self._now()
        promised: dict[str, list[Pod]] = {}
        for pod in self._view.pending_pods():
            answer = self._answered.get(pod.uid)
            if answer is not None and answer.node and now < answer.again_at:
                promised.setdefault(answer.node, []).append(pod)
        return promised

    def bought(self, uids: Iterable[str]) -> None:
        """A NodeClaim was written for these pods: should it fail, they are planned again at once."""
        self._decided(uids, BOUGHT_FOR)

    def _decided(self, uids: Iterable[str], duration: timedelta, node: str = "") -> None:
        until = self._now() + duration
        for uid in uids:
            self._answered[uid] = _Answered(until, 0, None, node)

    def unschedulable(self, uids: Iterable[str], fingerprint: object) -> None:
        """These pods fit nowhere: ask again when the view no longer has this fingerprint, or later and later."""
        now = self._now()
        for uid in uids:
            attempts = self._answered[uid].attempts + 1 if uid in self._answered else 1
            pause = min(FIRST_RETRY * 2 ** (attempts - 1), LONGEST_RETRY)
            self._answered[uid] = _Answered(now + pause, attempts, fingerprint)

    async def await_batch(self, given: AwaitBatchInput) -> BatchSummary:
        """Wait for an undecided pod, then until no new one came for the idle time or the window is full."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + given.wait_seconds
        self._turn += 1
        turn = self._turn
        while not (self._view.synced() and (pods := self.undecided())):
            left = give_up - loop.time()
            if left <= 0 or turn != self._turn:  # a newer question ends an older one
                return BatchSummary()
            await self._view.changed(min(left, self._until_next_retry()))
        opened_at, opened, newest = self._now(), loop.time(), loop.time()
        seen = {pod.uid for pod in pods}
        log.info("waiting to batch additional pods", extra={"pods": len(seen)})
        while True:
            close = min(newest + given.idle_seconds, opened + given.max_seconds)
            if loop.time() >= close:
                break
            await self._view.changed(close - loop.time())
            pods = self.undecided()
            fresh = {pod.uid for pod in pods} - seen
            if fresh:
                seen |= fresh
                newest = loop.time()
        pods = self.undecided()
        QUEUE_DEPTH.labels("provisioner").set(len(pods))
        return BatchSummary(pods=len(pods), opened_at=opened_at)

    def _covered(self, now: datetime) -> set[str]:
        covered: set[str] = set()
        for claim in self._view.claims():
            done = claim.initialized_at is not None and now - claim.initialized_at > NOMINATED_FOR
            if not claim.leaving and not done:
                covered |= claim.planned
        return covered

    def _valid(self, uid: str, now: datetime, fingerprint: object) -> bool:
        answer = self._answered.get(uid)
        if answer is None or now >= answer.again_at:
            return False
        return answer.fingerprint is None or answer.fingerprint == fingerprint

    def _forget(self, pending: set[str]) -> None:
        for uid in [uid for uid in self._answered if uid not in pending]:
            del self._answered[uid]

    def _until_next_retry(self) -> float:
        now = self._now()
        # What is over is not waited for: its pod is covered by a claim, whose end wakes the wait.
        waits = [(answer.again_at - now).total_seconds() for answer in self._answered.values() if answer.again_at > now]
        return max(0.05, min([60.0, *waits]))
