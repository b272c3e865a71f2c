"""Reads the interruption queue, and makes the nodes leave whose instances end (ACT-06, AWS-140..149).

Every replica reads, not only the leader. SQS gives a message to one reader at a time, all actions are safe to repeat,
and none needs Temporal or the Lease. So neither a change of the lead nor an outage of Temporal, in which leaders give
up their Lease, costs a part of the two minutes between a notice and the end of a spot instance. Only scheduled changes
wait for the leader, because they have a limit, and days.

The controller writes only to the API server: it taints the Node, so that no pod comes to it, and deletes the NodeClaim.
From then on the node's workflow drains it, now or when Temporal is back, and the next plan buys a replacement for its
pods. Both writes are done before the message is deleted. A message whose handling failed comes again after
`VISIBILITY_TIMEOUT`.

What EC2 can confirm is confirmed first (`confirmation.py`). A notice that comes before the NodeClaim names its
instance is applied when it does (`early_notices.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from typing import Protocol

from activities import metrics
from activities.clock import utc_now
from activities.ec2.queue import MAX_MESSAGES, QueueMessage
from activities.kubernetes.client import Kube
from activities.kubernetes.events import EventPublisher
from activities.tracing import spans
from activities.tracing.catalogue import Attribute, Operation, Phase
from tenon.apis import labels
from tenon.apis.rebalance import replaces_on_rebalance
from tenon.ec2.instances.interruption import (
    TAKES_CAPACITY,
    Evidence,
    MalformedNoticeError,
    Notice,
    NoticeKind,
    is_confirmed,
    is_fresh,
    read_notice,
)
from tenon.ec2.launch.claim_offering import offering_of
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.event_reasons import EventReason
from tenon.kube.records import NodeRecord
from tenon.messages.offerings import OfferingRef
from worker.cache.changes import Change, Topic
from worker.cache.cluster import ClusterCache
from worker.cache.managed_nodes import protection_of
from worker.controllers.base import Controller, backoff
from worker.controllers.event_subjects import subjects
from worker.controllers.interruption.confirmation import InstanceReader, InterruptionCheck
from worker.controllers.interruption.early_notices import EarlyNotices
from worker.controllers.interruption.interrupted_nodes import InterruptedNodes
from worker.controllers.interruption.scheduled_changes import ScheduledChangeLimit

WAIT_SECONDS = 20
"""Seconds that SQS holds a call open until a message arrives (ACT-06)."""
READERS = 4
"""Calls to SQS at the same time while messages are waiting. While there are none, a single call waits for them."""
EARLY_RETRY_SECONDS = 1.0
"""Seconds until an early notice is applied again that could not be applied."""
MAX_CHECKING = 20
"""Batches that wait for EC2 at the same time. One call answers for all of them."""
COUNT_SECONDS = 1.0
"""How old the count of leaving nodes may be that limits scheduled changes."""


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
        mark_unavailable: Callable[[Iterable[OfferingRef]], None],
        reader: InstanceReader,
        limit: ScheduledChangeLimit,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """``mark_unavailable`` receives the offerings that EC2 takes back, so that no replacement is bought there.

        ``limit``: that of the process, which says whether this replica leads.
        """
        super().__init__(cache)
        self._recorder = recorder
        self._reader = reader
        self._early = EarlyNotices()
        self._checking: set[asyncio.Task[bool]] = set()
        """The batches whose messages EC2 is asked about."""
        self._nodes = InterruptedNodes(kube, recorder, cluster, self._log, now, self.name)
        self._limit = limit
        self._queue = queue
        self._mark_unavailable = mark_unavailable
        self._now = now
        # Its own threads: a long poll would hold one of the few that all of the process shares.
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="sqs")

    async def run(self) -> None:
        """Read the queue until cancelled. Unlike other controllers, no change of the cache starts a reconcile."""
        await self.wait_ready()
        failures = 0
        late = asyncio.create_task(self._apply_early(), name="early notices")
        try:
            while True:
                _, succeeded = await self._reconcile_once(())
                failures = 0 if succeeded else failures + 1
                if failures:
                    self._retries.inc()
                    await asyncio.sleep(backoff(failures - 1))
        finally:
            background = {late, *self._checking}
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
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
        notices = [(message, notice) for message in received if (notice := self._read(message)) is not None]
        receipts = {message.receipt for message, notice in notices if notice.kind.needs_evidence}
        if receipts:
            await self._start_checking(
                [message_and_notice for message_and_notice in notices if message_and_notice[0].receipt in receipts]
            )
        again = await self._handle_all(
            [message_and_notice for message_and_notice in notices if message_and_notice[0].receipt not in receipts]
        )
        done = [message for message in received if message.receipt not in receipts | again]
        if done:
            await self._delete(done)
        return len(received) if done or receipts else 0

    async def _start_checking(self, notices: Sequence[tuple[QueueMessage, Notice]]) -> None:
        """Handle messages that EC2 must confirm, next to the following ones: the call waits for its turn, and a spot
        interruption must not wait for it.
        """
        while len(self._checking) >= MAX_CHECKING:
            await asyncio.wait(self._checking, return_when=asyncio.FIRST_COMPLETED)

        async def check() -> None:
            again = await self._handle_all(notices)
            if done := [message for message, _ in notices if message.receipt not in again]:
                await self._delete(done)

        task = asyncio.create_task(self.isolate("", check()))
        self._checking.add(task)
        task.add_done_callback(self._checking.discard)

    async def _handle_all(self, notices: Sequence[tuple[QueueMessage, Notice]]) -> set[str]:
        """Handle messages. Return the receipts of those that must come again."""
        ours = [
            (notice.kind, noticed_instance)
            for _, notice in notices
            for noticed_instance in notice.instance_ids
            if self._staying(noticed_instance)
        ]
        check = InterruptionCheck(self._reader, ours)
        if any(kind is NoticeKind.SCHEDULED_CHANGE for kind, _ in ours):
            self._limit.count(self._nodes.leaves, COUNT_SECONDS)
        again: set[str] = set()

        async def handle(message: QueueMessage, notice: Notice) -> None:
            for instance_id in notice.instance_ids:
                if not await self._handle(notice, instance_id, check):
                    again.add(message.receipt)

        handled = await asyncio.gather(
            *(self.isolate("", handle(*message_and_notice)) for message_and_notice in notices)
        )
        return again | {message.receipt for (message, _), fine in zip(notices, handled, strict=True) if not fine}

    async def _delete(self, messages: Sequence[QueueMessage]) -> None:
        loop = asyncio.get_running_loop()
        metrics.INTERRUPTION_DELETED.inc(await loop.run_in_executor(self._threads, self._queue.delete, messages))

    def _read(self, message: QueueMessage) -> Notice | None:
        """Read a message and count it. None if it is not an event, and is to be deleted."""
        try:
            notice = read_notice(message.body)
        except MalformedNoticeError as error:
            metrics.INTERRUPTION_MALFORMED.inc()
            if self._log_limiter.count(MalformedNoticeError) is not None:
                self._log.warning(
                    "The worker drops a message in the interruption queue that is not an EventBridge event",
                    extra={"error": str(error), "bytes": len(message.body)},
                )
            return None
        if self._is_of_leader(notice.kind):
            return notice  # which counts where it is handled
        metrics.INTERRUPTION_RECEIVED.labels(notice.kind).inc()
        if notice.at is not None:
            metrics.INTERRUPTION_SECONDS.observe(max(0.0, (self._now() - notice.at).total_seconds()))
        return notice

    def _is_of_leader(self, kind: NoticeKind) -> bool:
        """Whether this replica leaves a notice of the kind to the leader."""
        return kind is NoticeKind.SCHEDULED_CHANGE and not self._limit.leads

    def _staying(self, instance_id: str) -> ClaimRecord | None:
        """The NodeClaim of an instance, unless it is deleted already."""
        claim = self._cache.claim_of_instance(instance_id)
        return None if claim is None or self._nodes.leaves(claim) else claim

    async def _handle(self, notice: Notice, instance_id: str, check: InterruptionCheck) -> bool:
        """Act on a notice about one instance. Return False if the message must come again."""
        kind = notice.kind
        claim = self._cache.claim_of_instance(instance_id)
        if claim is None:
            if kind.ends_node:
                self._early.keep(notice, instance_id, self._now())
            return True
        if self._nodes.leaves(claim):
            await self._note(kind, claim)
            return True
        if kind is NoticeKind.INSTANCE_STOPPED and claim.warm:  # Tenon itself stops warm nodes
            return True
        if self._is_of_leader(kind):
            return False  # until the leader reads the message, or its check of instances sees the event
        evidence = await check.evidence(kind, instance_id)
        if not is_confirmed(kind, evidence, claim.labels.get(labels.CAPACITY_TYPE, "")):
            if is_fresh(notice.at, self._now()):
                return False
            await self._tell_unconfirmed(kind, claim)
            return True
        if kind is NoticeKind.SCHEDULED_CHANGE and (why := self._limit.admit(claim)):
            for subject in subjects(claim, self._cache.node_of(claim)):
                await self._recorder.publish(subject, EventReason.SCHEDULED_CHANGE_DELAYED, why)
            return False
        with self._recorded(notice, claim):
            await self._apply(kind, claim)
        return True

    async def _note(self, kind: NoticeKind, claim: ClaimRecord) -> None:
        """Note on a NodeClaim that leaves that EC2 takes its instance. That an instance ends is no news then.

        What replaces the node must not be bought where EC2 needs the capacity, whatever the node leaves for.
        """
        capacity_type = claim.labels.get(labels.CAPACITY_TYPE, "")
        takes = kind.ends_node and not kind.needs_evidence and is_confirmed(kind, Evidence(), capacity_type)
        if takes and kind in TAKES_CAPACITY:
            self._mark_unavailable(offering_of(claim))
        if takes and claim.deleting:
            await self._nodes.note(kind, claim)

    async def _tell_unconfirmed(self, kind: NoticeKind, claim: ClaimRecord) -> None:
        metrics.INTERRUPTION_UNCONFIRMED.labels(kind).inc()
        if self._log_limiter.count(("unconfirmed", claim.uid)) is not None:
            self._log.warning(
                "EC2 does not confirm a message in the interruption queue, and the node stays",
                extra={"nodeclaim": claim.name, "instance": claim.instance_id, "reason": kind.value},
            )
        why = f"A message in the interruption queue says {kind.value}, which EC2 does not confirm: the node stays"
        for subject in subjects(claim, self._cache.node_of(claim)):
            await self._recorder.publish(subject, EventReason.INTERRUPTION_NOT_CONFIRMED, why)

    async def _apply_early(self) -> None:
        """Apply notices when a NodeClaim gets the instance that they are about, until cancelled."""
        with self._cache.subscribe((Topic.CLAIM,)) as subscription:
            while True:
                changes = await subscription.next()
                if not self._early:
                    continue
                for claim in filter(None, (self._cache.claims.get(name) for _, name in changes)):
                    notice = self._early.take(claim.instance_id, self._now()) if claim.instance_id else None
                    if notice is None:
                        continue
                    if not await self.isolate(claim.name, self._handle_early(notice, claim)):
                        self._early.keep(notice, claim.instance_id, self._now())
                    if claim.instance_id in self._early:  # it must wait, and a change of the claim may be far off
                        offer = partial(subscription.offer, (Topic.CLAIM, claim.name))
                        asyncio.get_running_loop().call_later(EARLY_RETRY_SECONDS, offer)

    async def _handle_early(self, notice: Notice, claim: ClaimRecord) -> None:
        if self._is_of_leader(notice.kind):
            return  # whose check of instances sees the event
        check = InterruptionCheck(self._reader, [(notice.kind, claim.instance_id)])
        self._limit.count(self._nodes.leaves, COUNT_SECONDS)
        if not await self._handle(notice, claim.instance_id, check):
            self._early.keep(notice, claim.instance_id, self._now())

    def _recorded(self, notice: Notice, claim: ClaimRecord) -> AbstractContextManager[object]:
        """Record what a notice leads to. The node's workflow links to it, by the removal on its NodeClaim."""
        now = self._now()
        about: dict[Attribute, spans.Value] = {
            Attribute.REASON: notice.kind.value,
            Attribute.INSTANCE: claim.instance_id,
            Attribute.INSTANCE_TYPE: claim.labels.get(labels.INSTANCE_TYPE, ""),
            Attribute.NODECLAIM: claim.name,
            Attribute.NODEPOOL: claim.pool,
        }
        return spans.operation(
            Operation.INTERRUPTION,
            f"interruption/{notice.kind.value}/{claim.uid}/{now.isoformat()}",
            Phase.HANDLE,
            is_first=True,
            at=notice.at or now,
            root=about,
            attributes=about,
        )

    async def _apply(self, kind: NoticeKind, claim: ClaimRecord) -> None:
        node = self._cache.node_of(claim)
        leaves = kind.ends_node or (kind is NoticeKind.REBALANCE_RECOMMENDATION and self._rebalances(claim, node))
        if leaves:
            if kind in TAKES_CAPACITY:
                self._mark_unavailable(offering_of(claim))
            if not await self._nodes.make_leave(kind, claim, node):
                return
        await self._nodes.tell(kind, claim, node, leaves=leaves)

    def _rebalances(self, claim: ClaimRecord, node: NodeRecord | None) -> bool:
        """Whether the node leaves because of a mere recommendation (WSH-26)."""
        pool = self._cache.pools.get(claim.pool)
        if pool is None or not replaces_on_rebalance(pool.annotations):
            return False
        return not protection_of(claim, node, self._now())
