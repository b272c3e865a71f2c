"""What the other controller does: which of its nodes leave and why, and which pods it moves."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median

from tenon.apis import labels
from tenon.apis.nodeclaim import DISRUPTION_REASON
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.offerings import OfferingKey
from tenon.kube.records import PodRecord
from tenon.kube.timestamps import clock_instant
from tenon.shadow.cluster import Disturbance
from tenon.shadow.disruptions import DRAIN_SECONDS, EXPIRED, INTERRUPTED
from tenon.shadow.pods import LivePod

DELETED = "Deleted"
"""The reason of a node that somebody deleted, or whose NodeClaim says nothing else."""
DRAINS = 200
"""How many nodes say how long a drain takes."""


@dataclass(slots=True)
class Theirs:
    """Counts what the other controller disturbs. Each node and each pod counts once."""

    disturbance: Disturbance = field(default_factory=Disturbance)
    _leaving: dict[str, float] = field(default_factory=dict)
    """The NodeClaims that were counted and exist, and since when they leave."""
    _drains: deque[float] = field(default_factory=lambda: deque(maxlen=DRAINS))
    """Seconds that the last nodes took to leave."""
    _moved: set[str] = field(default_factory=set)
    """UIDs of the pods that were counted and exist."""

    def go_on(self, claims: Iterable[ClaimRecord], pods: Iterable[LivePod], counted_until: float) -> None:
        """Take note of what was counted before a restart and has not ended yet.

        Args:
            claims: all NodeClaims of NodePools.
            pods: all pods that need a node.
            counted_until: the last time that `observe` was called, in seconds since the epoch.
        """
        for claim in claims:
            if claim.deleted_at is not None and (since := claim.deleted_at.timestamp()) <= counted_until:
                self._leaving[claim.name] = since
        for live in pods:
            deletion = live.record.deletion
            if deletion is not None and live.node_leaves:
                began = deletion.end.timestamp() - deletion.grace_seconds
                if began <= counted_until:
                    self._moved.add(live.uid)

    def observe(
        self, claims: Iterable[ClaimRecord], pods: Iterable[LivePod], evicted: Iterable[PodRecord], now: float
    ) -> list[tuple[str, str, str]]:
        """Count what is new. Return the offerings of spot nodes that EC2 took back.

        Args:
            claims: all NodeClaims of NodePools.
            pods: those that are new or have changed.
            evicted: those that have ended while their Node was being removed.
            now: seconds since the epoch.
        """
        interrupted: list[tuple[str, str, str]] = []
        present: dict[str, float] = {}
        for claim in claims:
            if not claim.deleting:
                continue
            present[claim.name] = self._leaving.get(claim.name, now)
            if claim.name not in self._leaving:
                reason = counted_reason(claim, clock_instant(now))
                self.disturbance.note(reason, 0)
                if reason == INTERRUPTED:
                    interrupted.append(offering_of(claim))
        self._drains.extend(now - since for name, since in self._leaving.items() if name not in present)
        self._leaving = present
        for record in (*(live.record for live in pods if live.ends and live.node_leaves), *evicted):
            if record.owner_kind and record.uid not in self._moved:
                self._moved.add(record.uid)
                self.disturbance.pods_moved += 1
        return interrupted

    @property
    def drain_seconds(self) -> float:
        """Return how long nodes of this cluster take from the deletion of their NodeClaim until it is gone."""
        return median(self._drains) if self._drains else DRAIN_SECONDS

    def forget(self, uids: Iterable[str]) -> None:
        """Forget pods that do not exist any more."""
        self._moved.difference_update(uids)


def counted_reason(claim: ClaimRecord, now: datetime) -> str:
    """Return the reason under which a NodeClaim that another controller deletes is counted.

    It is in part a guess, unlike `tenon.node.leave_text.removal_of`: Karpenter states a reason only for disruption
    commands, so a node that is old enough counts as expired, and another spot node as interrupted.
    """
    if claim.is_true(DISRUPTION_REASON):
        return str(claim.condition(DISRUPTION_REASON).get("reason") or DELETED)
    created, after = claim.created_at, claim.expire_after_seconds
    if created is not None and after is not None and created + timedelta(seconds=after) <= now:
        return EXPIRED
    return INTERRUPTED if claim.labels.get(labels.CAPACITY_TYPE) == labels.SPOT else DELETED


def offering_of(claim: ClaimRecord) -> tuple[str, str, str]:
    """Return the instance type, the zone and the capacity type; empty texts before the launch."""
    offering = OfferingKey.of_labels(claim.labels)
    return offering.instance_type, offering.zone, offering.capacity_type
