"""How a node is drained: which pods, in which order, and when deletion replaces eviction.

Pods leave in four waves: ordinary pods, ordinary DaemonSet pods, critical pods, critical DaemonSet pods. A wave starts
when the one before it is gone. Eviction respects PodDisruptionBudgets and do-not-disrupt; forced deletion respects only
the grace period.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from tenon.kube.claim_record import ClaimRecord
from tenon.kube.protection import pod_protection, protecting_annotation
from tenon.kube.records import Deletion, PodRecord
from tenon.messages.node_steps import BlockedPods
from tenon.node.drain_blockers import deleted_at, overdue_termination, until_deletion

STUCK_AFTER = timedelta(minutes=1)
"""A drain stops waiting for a terminating pod this long after the end of its grace period."""
UNRESPONSIVE_AFTER = timedelta(seconds=5)
"""A forced drain waits this long after the end of a pod's grace period for a kubelet that does not answer."""
WAVES = 4


class ActionKind(StrEnum):
    """What to do with one pod now."""

    EVICT = "evict"
    DELETE = "delete"
    AWAIT = "await"


@dataclass(frozen=True, slots=True)
class Action:
    """One decision about a pod.

    ``grace_seconds`` is set for DELETE. ``blocked`` says what holds an awaited pod, if a person could change it.
    """

    kind: ActionKind
    grace_seconds: int | None = None
    blocked: BlockedPods | None = None


def is_drainable(pod: PodRecord, now: datetime, force_at: datetime | None = None) -> bool:
    """True if the drain removes this pod: it is not a mirror pod, does not tolerate the taint, and is not stuck.

    After ``force_at``, the end of the node's grace period, a terminating pod counts as stuck after `UNRESPONSIVE_AFTER`
    instead of `STUCK_AFTER`.
    """
    if pod.stays:
        return False
    if pod.deletion is None:
        return True
    end = pod.deletion.end
    if force_at is not None and now - max(end, force_at) >= UNRESPONSIVE_AFTER:
        return False
    return now - end <= STUCK_AFTER


def remaining_pods(node_pods: Iterable[PodRecord], now: datetime, force_at: datetime | None = None) -> list[PodRecord]:
    """Return the pods that a drain waits for, sorted by name."""
    waited = [pod for pod in node_pods if not pod.terminal and is_drainable(pod, now, force_at)]
    return sorted(waited, key=lambda pod: pod.key)


def left_behind(node_pods: Iterable[PodRecord], now: datetime, force_at: datetime | None = None) -> list[PodRecord]:
    """Return the pods that a drain deleted but no longer waits for, so that the reason can be reported."""
    stuck = [pod for pod in node_pods if not pod.terminal and not pod.stays and not is_drainable(pod, now, force_at)]
    return sorted(stuck, key=lambda pod: pod.key)


def wave(pod: PodRecord) -> int:
    """The pod's wave in the drain order, from 0."""
    return 2 * pod.critical + pod.daemon


def current_wave(waited: Sequence[PodRecord]) -> int:
    """Return the first wave that still has pods; `WAVES` if none has."""
    return min((wave(pod) for pod in waited), default=WAVES)


def decide(pod: PodRecord, now: datetime, *, turn: bool, force_at: datetime | None, force: bool) -> Action:
    """Decide what to do with an awaited pod now.

    Args:
        pod: one of `remaining_pods`.
        now: the current time.
        turn: whether the pod's wave is the current one. Deletion at the end of the grace period ignores waves.
        force_at: when the pod must be gone (terminationGracePeriod), whatever protects it.
        force: whether an operator asked to delete pods at once.
    """
    deletion = pod.deletion
    if force:
        return _forced(deletion, now)
    if force_at is not None:
        if deletion is not None and deletion.end > force_at:
            return _shortened(deletion, force_at)
        if deletion is None and until_deletion(pod, force_at, now) <= timedelta():
            return Action(ActionKind.DELETE, grace_seconds=_whole_seconds(force_at - now))
    if deletion is not None:
        is_held = deletion.finalizers and now - deletion.end >= UNRESPONSIVE_AFTER
        return Action(ActionKind.AWAIT, blocked=overdue_termination(pod) if is_held else None)
    if not turn:
        return Action(ActionKind.AWAIT)
    if protection := pod_protection(pod, now):
        blocked = BlockedPods(
            pods=(pod.key,),
            why=f"cannot be evicted: {protection}",
            annotation=protecting_annotation(pod),
            deleted_at=deleted_at(pod, force_at, now),
        )
        return Action(ActionKind.AWAIT, blocked=blocked)
    return Action(ActionKind.EVICT)


def _forced(deletion: Deletion | None, now: datetime) -> Action:
    """Delete with a short grace period first, and with none if the kubelet does not respond."""
    if deletion is None:
        return Action(ActionKind.DELETE, grace_seconds=1)
    if deletion.end > now:
        return _shortened(deletion, now)
    if now - deletion.end >= UNRESPONSIVE_AFTER:
        return Action(ActionKind.DELETE, grace_seconds=0)
    return Action(ActionKind.AWAIT)


def _shortened(deletion: Deletion, end: datetime) -> Action:
    """Shorten a deletion in progress so that it ends by ``end``. Kubernetes counts the grace period from its start."""
    granted = deletion.grace_seconds
    shorter = _whole_seconds(end - deletion.end + timedelta(seconds=granted))
    return Action(ActionKind.DELETE, grace_seconds=shorter) if shorter < granted else Action(ActionKind.AWAIT)


def _whole_seconds(remaining: timedelta) -> int:
    """Round up, and never return 0: that would remove the pod from the API while its containers still run."""
    return max(1, math.ceil(remaining.total_seconds()))


def forced_from(force_at: datetime | None, claim: ClaimRecord | None) -> datetime | None:
    """Return when a drain becomes forced: as it began, or earlier if its NodeClaim says so by now (ANN-04)."""
    written = claim.termination_timestamp if claim is not None else None
    return min((at for at in (force_at, written) if at is not None), default=None)


def next_force(waited: Iterable[PodRecord], force_at: datetime | None, now: datetime) -> datetime | None:
    """Return when the first of these pods must be deleted, whatever protects it. The drain must not sleep past it."""
    if force_at is None:
        return None
    instants = [deleted_at(pod, force_at, now) for pod in waited if pod.deletion is None]
    return min((instant for instant in instants if instant is not None), default=max(force_at, now))


def force_instant(deletion: datetime, grace_seconds: float | None, *explicit: datetime | None) -> datetime | None:
    """Return when the drain becomes forced: the earliest of ``explicit`` and the end of the grace period."""
    instants = [instant for instant in explicit if instant is not None]
    if grace_seconds is not None:
        instants.append(deletion + timedelta(seconds=grace_seconds))
    return min(instants, default=None)
