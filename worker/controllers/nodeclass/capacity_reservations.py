"""Follows the instances of NodeClaims in capacity reservations (ACT-13, ACT-14).

An instance leaves its reservation when that is cancelled or ends, and then costs the on-demand price. Its NodeClaim and
Node get the labels of on-demand capacity, and drift decides what follows. EC2 is eventually consistent, so this needs
two descriptions some seconds apart. The instances of a capacity block end with it, so their nodes leave before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from activities import metrics
from activities.clock import utc_now
from activities.kubernetes.bounded_concurrency import bounded
from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.event_references import claim_reference
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.nodeclaim_deletion import delete_with_finalizer
from activities.kubernetes.resources import NODECLAIMS, NODES
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.reasons import Reason
from tenon.ec2.types.capacity_reservations import RESERVATION_LABELS, drains
from tenon.kube import object_json
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.event_reasons import EventReason
from tenon.messages.node import Removal
from worker.cache.changes import Change, Topic
from worker.cache.cluster import ClusterCache
from worker.controllers.base import Controller

INTERVAL = 60.0
AT_ONCE = 10
CONFIRMED_AFTER = timedelta(seconds=15)
"""How long EC2 must describe an instance without its reservation until the instance counts as on-demand."""
EXPIRING = Reason.CAPACITY_RESERVATION_EXPIRING
"""The reason of these deletions in metrics."""


class ReservedInstances(Protocol):
    """What EC2 says about instances, as `activities.ec2.provider.Ec2Provider` does."""

    def reservations(self, instance_ids: Sequence[str]) -> Mapping[str, str]:
        """Instance id to the capacity reservation that a living instance is in; empty if it is in none. Blocking."""
        ...


class ReservedCapacityTypeController(Controller):
    """Labels NodeClaims and Nodes on-demand whose instances are no longer in a capacity reservation."""

    name = "capacityreservation.capacitytype"
    object_field = "nodeclaim"
    topics = (Topic.NODECLASS,)
    interval = 1.0
    resync = INTERVAL

    def __init__(
        self, kube: Kube, cache: ClusterCache, ec2: ReservedInstances, now: Callable[[], datetime] = utc_now
    ) -> None:
        super().__init__(cache)
        self._kube = kube
        self._ec2 = ec2
        self._now = now
        self._left_at: dict[str, datetime] = {}
        """UID of a claim to the first of the consecutive descriptions without its reservation."""

    async def reconcile(self, changes: Sequence[Change]) -> float | None:  # noqa: ARG002
        """Ask EC2 about all instances that are labelled reserved."""
        claims = [claim for claim in self._cache.claims if _reserved(claim) and claim.instance_id]
        if not claims:
            self._left_at = {}
            return None
        reservations = await asyncio.to_thread(self._ec2.reservations, [claim.instance_id for claim in claims])
        now = self._now()
        returned_claims = [claim for claim in claims if reservations.get(claim.instance_id) == ""]
        self._left_at = {claim.uid: self._left_at.get(claim.uid, now) for claim in returned_claims}
        confirmed = [claim for claim in returned_claims if now - self._left_at[claim.uid] >= CONFIRMED_AFTER]
        await bounded(confirmed, AT_ONCE, lambda claim: self.isolate(claim.name, self._relabel(claim)))
        return CONFIRMED_AFTER.total_seconds() if len(confirmed) < len(returned_claims) else None

    async def _relabel(self, claim: ClaimRecord) -> None:
        """Write the Node first: the NodeClaim's label decides whether this is tried again."""
        node = self._cache.node_of(claim)
        if node is not None:
            await change(self._kube, NODES, node.name, _on_demand, uid=node.uid)
        await change(self._kube, NODECLAIMS, claim.name, _on_demand, uid=claim.uid)
        self._log.info(
            "An instance left its capacity reservation and is on-demand",
            extra={
                "nodeclaim": claim.name,
                "instance": claim.instance_id,
                "capacity-reservation": claim.labels.get(labels.RESERVATION_ID, ""),
            },
        )


class CountedPlaces(Protocol):
    """What counts the free places of reservations, as `activities.ec2.provider.Ec2Provider` does."""

    def count_places(self) -> None:
        """Ask EC2 again when the places are needed next."""
        ...


class FreedPlacesController(Controller):
    """Has the places of reservations counted again when a NodeClaim is gone that had one (N15-408).

    A count may be a minute old. Pods that wait for the place of a node that left first should not wait for the next.
    """

    name = "capacityreservation.places"
    object_field = "nodeclaim"
    topics = (Topic.CLAIM,)
    interval = 1.0
    resync = INTERVAL

    def __init__(self, cache: ClusterCache, ec2: CountedPlaces) -> None:
        super().__init__(cache)
        self._ec2 = ec2
        self._reserved: frozenset[str] = frozenset()
        """The UIDs of the NodeClaims that had a place at the last look."""

    async def reconcile(self, changes: Sequence[Change]) -> float | None:  # noqa: ARG002
        """Compare the NodeClaims with those of the last look."""
        present = {claim.uid for claim in self._cache.claims}
        if self._reserved - present:
            self._ec2.count_places()
        self._reserved = frozenset(claim.uid for claim in self._cache.claims if labels.RESERVATION_ID in claim.labels)
        return None


class CapacityBlockExpirationController(Controller):
    """Deletes the NodeClaims in capacity blocks that end soon."""

    name = "capacityreservation.expiration"
    object_field = "nodeclaim"
    topics = (Topic.NODECLASS,)
    interval = 1.0
    resync = INTERVAL

    def __init__(
        self,
        kube: Kube,
        recorder: EventPublisher,
        cache: ClusterCache,
        node_class: Callable[[str], EC2NodeClass | None],
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        super().__init__(cache)
        self._kube = kube
        self._recorder = recorder
        self._node_class = node_class
        self._now = now

    async def reconcile(self, changes: Sequence[Change]) -> float | None:  # noqa: ARG002
        """Look at all nodes in capacity blocks."""
        ending = [claim for claim in self._cache.claims if self._ends_soon(claim)]
        await bounded(ending, AT_ONCE, lambda claim: self.isolate(claim.name, self._end(claim)))
        return None

    def _ends_soon(self, claim: ClaimRecord) -> bool:
        if not _reserved(claim) or claim.labels.get(labels.RESERVATION_TYPE) != labels.CAPACITY_BLOCK:
            return False
        node_class, now = self._node_class(claim.node_class), self._now()
        listed = node_class.status.capacity_reservations if node_class is not None else []
        name = claim.labels.get(labels.RESERVATION_ID, "")
        return any(reservation.id == name and drains(reservation, now) for reservation in listed)

    async def _end(self, claim: ClaimRecord) -> None:
        name = claim.labels[labels.RESERVATION_ID]
        removal = Removal(reason=EXPIRING, detail=f"capacity block {name} ends soon", actor=f"controller {self.name}")
        if not await delete_with_finalizer(self._kube, claim, removal):
            return
        metrics.CLAIMS_DISRUPTED.labels(EXPIRING, claim.pool, labels.RESERVED, "", claim.termination_mode).inc()
        message = f"Capacity block {name} ends soon, and EC2 terminates its instances before that"
        subject = claim_reference(claim.name, claim.uid)
        await self._recorder.publish(subject, EventReason.CAPACITY_RESERVATION_EXPIRING, message)
        self._log.info(
            "A node leaves because its capacity block ends soon",
            extra={"nodeclaim": claim.name, "nodepool": claim.pool, "capacity-reservation": name},
        )


def _reserved(claim: ClaimRecord) -> bool:
    return not claim.deleting and claim.labels.get(labels.CAPACITY_TYPE) == labels.RESERVED


def _on_demand(body: Mapping[str, Any]) -> dict[str, Any]:
    """The patch that turns the labels of reserved capacity into those of on-demand capacity."""
    present = object_json.labels(body)
    if present.get(labels.CAPACITY_TYPE) != labels.RESERVED:
        return {}
    removed_labels = {key: None for key in RESERVATION_LABELS if key in present}
    return {"metadata": {"labels": {labels.CAPACITY_TYPE: labels.ON_DEMAND, **removed_labels}}}
