"""Reads the interruption queue, and makes the nodes leave whose instances end (ACT-06, AWS-140..149).

Every replica reads, not only the leader. SQS gives a message to one reader at a time, all actions are safe to repeat,
and none needs Temporal or the Lease. So neither a change of the lead nor an outage of Temporal, in which leaders give
up their Lease, costs a part of the two minutes between a notice and the end of a spot instance.

The controller writes only to the API server: it taints the Node, so that no pod comes to it, and deletes the NodeClaim.
From then on the node's workflow drains it, now or when Temporal is back, and the next plan buys a replacement for its
pods. Both writes are done before the message is deleted. A message whose handling failed comes again after
`VISIBILITY_TIMEOUT`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Protocol

from activities import metrics
from activities.clock import utc_now
from activities.ec2.queue import MAX_MESSAGES, QueueMessage
from activities.kubernetes.client import Kube
from activities.kubernetes.events import EventPublisher
from tenon.apis import labels
from tenon.apis.rebalance import replaces_on_rebalance
from tenon.ec2.interruption import Kind, MalformedNoticeError, read_notice
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.offerings import OfferingKey
from tenon.kube.records import NodeRecord
from tenon.lifecycle.messages.launch import OfferingRef
from worker.cache.changes import Change
from worker.cache.cluster import ClusterCache
from worker.cache.managed_nodes import protection_of
from worker.controllers.base import Controller, backoff
from worker.controllers.interrupted_nodes import InterruptedNodes

WAIT_SECONDS = 20
"""Seconds that SQS holds a call open until a message arrives (ACT-06)."""
READERS = 4
"""Calls to SQS at the same time while messages are waiting. While there are none, a single call waits for them."""
TAKEN_BACK = (Kind.SPOT_INTERRUPTED, Kind.REBALANCE_RECOMMENDATION, Kind.CAPACITY_RESERVATION_INTERRUPTED)
"""Notices that say that EC2, or the owner of a reservation, needs the capacity: no replacement is bought there."""


class Queue(Protocol):
    """The interruption queue, as `activities.ec2.queue.MessageQueue` reads it. Its methods block."""

    def receive(self, wait_seconds: int) -> list[QueueMessage]:
        """The next messages."""

    def delete(self, messages: Sequence[QueueMessage]) -> int:
        """Delete messages, and return how many."""


class InterruptionController(Controller):
    """Makes nodes leave whose instances AWS interrupts, stops or terminates."""

    name = "interruption"
    object_field = "nodeclaim"
    topics = ()

    def __init__(
        self,
        kube: Kube,
        recorder: EventPublisher,
        cache: ClusterCache,
        queue: Queue,
        cluster: str,
        sold_out: Callable[[Iterable[OfferingRef]], None],
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """``sold_out`` receives the offerings that EC2 takes back, so that no replacement is bought there."""
        super().__init__(cache)
        self._nodes = InterruptedNodes(kube, recorder, cluster, self._log, now)
        self._queue = queue
        self._sold_out = sold_out
        self._now = now
        # Its own threads: a long poll would hold one of the few that all of the process shares.
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="sqs")

    async def run(self) -> None:
        """Read the queue until cancelled. Unlike other controllers, no change of the cache starts a reconcile."""
        await self.wait_ready()
        failures = 0
        try:
            while True:
                _, succeeded = await self._reconcile_once(())
                failures = 0 if succeeded else failures + 1
                if failures:
                    self._retries.inc()
                    await asyncio.sleep(backoff(failures - 1))
        finally:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def reconcile(self, changes: Sequence[Change]) -> float | None:  # noqa: ARG002
        """Wait for messages and handle them. If there are many, read and handle several batches at the same time."""
        if await self._serve(WAIT_SECONDS) < MAX_MESSAGES:
            return None
        results = await asyncio.gather(*(self._empty() for _ in range(READERS)), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return None

    async def _empty(self) -> None:
        while await self._serve(0):
            pass

    async def _serve(self, wait_seconds: int) -> int:
        """Receive messages, handle them and delete those that are done. Return how many there were.

        Returns 0 if none could be handled, because the reason concerns the next messages too.
        """
        loop = asyncio.get_running_loop()
        received = await loop.run_in_executor(self._threads, self._queue.receive, wait_seconds)
        if not received:
            return 0
        self._adds.inc(len(received))
        handled = await asyncio.gather(*(self.isolate("", self._handle(message)) for message in received))
        done = [message for message, succeeded in zip(received, handled, strict=True) if succeeded]
        if not done:
            return 0
        metrics.INTERRUPTION_DELETED.inc(await loop.run_in_executor(self._threads, self._queue.delete, done))
        return len(received)

    async def _handle(self, message: QueueMessage) -> None:
        try:
            notice = read_notice(message.body)
        except MalformedNoticeError as error:
            metrics.INTERRUPTION_MALFORMED.inc()
            if self._log_limiter.count(MalformedNoticeError) is not None:
                self._log.warning(
                    "The worker drops a message in the interruption queue that is not an EventBridge event",
                    extra={"error": str(error), "bytes": len(message.body)},
                )
            return
        metrics.INTERRUPTION_RECEIVED.labels(notice.kind).inc()
        if notice.at is not None:
            metrics.INTERRUPTION_SECONDS.observe(max(0.0, (self._now() - notice.at).total_seconds()))
        for instance_id in notice.instance_ids:
            claim = self._cache.claim_of_instance(instance_id)
            if claim is not None and not self._nodes.leaves(claim):
                await self._apply(notice.kind, claim)

    async def _apply(self, kind: Kind, claim: ClaimRecord) -> None:
        node = self._cache.node_of(claim)
        leaves = kind.ends_node or (kind is Kind.REBALANCE_RECOMMENDATION and self._rebalances(claim, node))
        if leaves:
            if kind in TAKEN_BACK:
                self._sold_out(_offering(claim))
            if not await self._nodes.make_leave(kind, claim, node):
                return
        await self._nodes.tell(kind, claim, node, leaves=leaves)

    def _rebalances(self, claim: ClaimRecord, node: NodeRecord | None) -> bool:
        """Whether the node leaves because of a mere recommendation (WSH-26)."""
        pool = self._cache.pools.get(claim.pool)
        if pool is None or not replaces_on_rebalance(pool.annotations):
            return False
        return not protection_of(claim, node, self._now())


def _offering(claim: ClaimRecord) -> list[OfferingRef]:
    """The offering of a NodeClaim, if its labels say all of it."""
    found = [claim.labels.get(key, "") for key in (labels.CAPACITY_TYPE, labels.INSTANCE_TYPE, labels.ZONE)]
    key = OfferingKey.refusable(found[0], found[1], found[2], claim.labels.get(labels.RESERVATION_ID, ""))
    offering = OfferingRef(capacity_type=key.capacity_type, instance_type=key.instance_type, zone=key.zone)
    return [offering] if all(found) else []
