"""Compares initialized Nodes with what their NodeClaims promise, and says so where a Node has less (CTL-14).

The condition ConsistentStateFound is first set together with Initialized. This controller follows later changes, and
repeats the event while the Node stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from activities.clock import utc_now
from activities.kubernetes.client import Kube
from activities.kubernetes.event_references import claim_reference
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.nodeclaims import consistency_condition, update_conditions
from tenon.apis.nodeclaim import CONSISTENT_STATE_FOUND
from tenon.kube.event_reasons import EventReason
from tenon.messages.base import ClaimRef
from tenon.node.consistency import shortfalls
from worker.cache.changes import Change, Topic
from worker.cache.cluster import ClusterCache
from worker.cache.quantities import claimed, requested
from worker.controllers.base import ObjectController

RESCAN_SECONDS = 600.0


class NodeClaimConsistencyController(ObjectController):
    """Writes the condition only where it changes, so healthy nodes cost no request."""

    name = "nodeclaim.consistency"
    object_field = "nodeclaim"
    topics = (Topic.CLAIM,)
    settle = 1.0

    def __init__(
        self,
        kube: Kube,
        recorder: EventPublisher,
        cache: ClusterCache,
        cluster: str,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        super().__init__(cache)
        self._kube = kube
        self._recorder = recorder
        self._cluster = cluster
        self._now = now

    def initial(self) -> Sequence[Change]:
        """All NodeClaims."""
        return [(Topic.CLAIM, claim.name) for claim in self._cache.claims]

    def needs_reconcile(self, name: str) -> bool:
        """Whether the Node has too little, or the condition says so although it no longer does."""
        claim = self._cache.claims.get(name)
        shortfalls = self._shortfalls(name)
        if claim is None or shortfalls is None:
            return False
        return bool(shortfalls) or claim.condition(CONSISTENT_STATE_FOUND).get("status") == "False"

    async def reconcile_object(self, name: str) -> float | None:
        """Write the condition and the events."""
        claim, shortfalls = self._cache.claims.get(name), self._shortfalls(name)
        if claim is None or shortfalls is None:
            return None
        ref = ClaimRef(cluster=self._cluster, name=name, uid=claim.uid)
        written = await update_conditions(self._kube, ref, [consistency_condition(shortfalls)], self._now)
        if written is None or not shortfalls:
            return None
        subject = claim_reference(name, claim.uid)
        for message in shortfalls:
            await self._recorder.publish(subject, EventReason.FAILED_CONSISTENCY_CHECK, message)
        return RESCAN_SECONDS

    def _shortfalls(self, name: str) -> list[str] | None:
        """What the Node of a NodeClaim lacks; None if it is not initialized or is leaving."""
        claim = self._cache.claims.get(name)
        node = self._cache.node_of(claim) if claim is not None else None
        if claim is None or node is None or claim.deleting or not claim.initialized:
            return None
        return shortfalls(requested(claim), claimed(claim, "capacity"), node.capacity)
