"""Makes a node leave whose instance ends or fails: taints its Node, deletes its NodeClaim, says why (AWS-140..147)."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime

from activities import metrics
from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.nodeclaim_deletion import (
    delete_with_finalizer,
    delete_without_grace,
    end_grace,
    note_removal,
)
from activities.kubernetes.nodeclaims import read_claim
from activities.kubernetes.resources import NODES
from tenon.apis import labels
from tenon.ec2.instances.interruption import EVENTS, LEAVES, NoticeKind
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.records import NodeRecord
from tenon.messages.base import ClaimRef
from tenon.messages.node import Removal
from tenon.node import cordon
from worker.controllers.event_subjects import subjects

REMEMBERED = 10_000
"""How many NodeClaims that were deleted here are remembered until the cache shows that they leave."""


class InterruptedNodes:
    """The nodes that a controller makes leave. All steps are safe to repeat."""

    def __init__(
        self,
        kube: Kube,
        recorder: EventPublisher,
        cluster: str,
        log: logging.Logger,
        now: Callable[[], datetime],
        controller: str,
    ) -> None:
        """``controller``: who removes the nodes, for their workflows."""
        self._controller = controller
        self._kube = kube
        self._recorder = recorder
        self._cluster = cluster
        self._log = log
        self._now = now
        self._deleted: OrderedDict[str, None] = OrderedDict()

    def leaves(self, claim: ClaimRecord) -> bool:
        """Whether the NodeClaim is being deleted, even if the cache does not show it yet."""
        return claim.deleting or claim.uid in self._deleted

    async def make_leave(self, kind: NoticeKind, claim: ClaimRecord, node: NodeRecord | None) -> bool:
        """Taint the Node and delete the NodeClaim. Return False if the NodeClaim is gone already.

        A node whose instance fails leaves without grace: its pods may not run any more, and cannot be asked to stop.
        """
        if node is not None:
            await change(self._kube, NODES, node.name, cordon.cordoned, uid=node.uid)
        if not await self._delete(kind, claim):
            return False
        if claim.uid in self._deleted:
            return False  # another message of the same batch was faster
        self._deleted[claim.uid] = None
        while len(self._deleted) > REMEMBERED:
            self._deleted.popitem(last=False)
        capacity_type = claim.labels.get(labels.CAPACITY_TYPE, "")
        mode = claim.termination_mode
        metrics.CLAIMS_DISRUPTED.labels(kind.value, claim.pool, capacity_type, "", mode).inc()
        self._log.info(
            "The controller deleted a NodeClaim because its instance ends or fails",
            extra={
                "nodeclaim": claim.name,
                "node": node.name if node is not None else "",
                "nodepool": claim.pool,
                "instance": claim.instance_id,
                "reason": kind.value,
            },
        )
        return True

    async def _delete(self, kind: NoticeKind, claim: ClaimRecord) -> bool:
        if not kind.failed:
            return await delete_with_finalizer(self._kube, claim, self._removal(kind))
        return await delete_without_grace(self._kube, self._ref(claim), claim, self._removal(kind), self._now())

    def _ref(self, claim: ClaimRecord) -> ClaimRef:
        return ClaimRef(cluster=self._cluster, name=claim.name, uid=claim.uid)

    async def end_grace(self, kind: NoticeKind, claim: ClaimRecord, node: NodeRecord | None) -> bool:
        """End the grace period of a node that leaves already and whose instance fails. Return False if it was over."""
        ref, removal = self._ref(claim), self._removal(kind)
        present = await read_claim(self._kube, ref)
        if present is None or not await end_grace(self._kube, ref, present, removal, self._now()):
            return False
        self._log.info(
            "The controller ended the grace period of a node that leaves, because its instance fails",
            extra={
                "nodeclaim": claim.name,
                "node": node.name if node is not None else "",
                "nodepool": claim.pool,
                "instance": claim.instance_id,
                "reason": kind.value,
            },
        )
        return True

    async def note(self, kind: NoticeKind, claim: ClaimRecord) -> None:
        """Record the notice on a NodeClaim that leaves already, for the timeline of its node."""
        await note_removal(self._kube, claim, self._removal(kind))

    def _removal(self, kind: NoticeKind) -> Removal:
        detail = EVENTS[kind].message if kind in EVENTS else "EC2 has scheduled an event for the instance"
        return Removal(reason=kind.value, detail=detail, actor=f"controller {self._controller}")

    async def tell(self, kind: NoticeKind, claim: ClaimRecord, node: NodeRecord | None, *, leaves: bool) -> None:
        """Publish the events of a notice on the NodeClaim and the Node."""
        events = [event for event in (EVENTS.get(kind), LEAVES if leaves else None) if event is not None]
        for subject in subjects(claim, node):
            for event in events:
                await self._recorder.publish(subject, event.reason, event.message)
