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

from tenon.kube import object_json, pod_json
from tenon.kube.structs import Object
from tenon.lifecycle.drain_blockers import forced_deletion_notice, overdue_termination

STUCK_AFTER = timedelta(minutes=1)
"""A drain stops waiting for a terminating pod this long after the end of its grace period."""
UNRESPONSIVE_AFTER = timedelta(seconds=5)
"""A forced drain waits this long after the end of a pod's grace period for a kubelet that does not answer."""
WAVES = 4


class Kind(StrEnum):
    """What to do with one pod now."""

    EVICT = "evict"
    DELETE = "delete"
    AWAIT = "await"


@dataclass(frozen=True, slots=True)
class Action:
    """One decision about a pod.

    ``grace_seconds`` is set for DELETE. ``why`` says what holds an awaited pod, if a person could change it.
    """

    kind: Kind
    grace_seconds: int | None = None
    why: str = ""


def is_drainable(pod: Object, now: datetime, force_at: datetime | None = None) -> bool:
    """True if the drain removes this pod: it is not a mirror pod, does not tolerate the taint, and is not stuck.

    After ``force_at``, the end of the node's grace period, a terminating pod counts as stuck after `UNRESPONSIVE_AFTER`
    instead of `STUCK_AFTER`.
    """
    if _stays(pod):
        return False
    deletion = object_json.deletion_instant(pod)
    if deletion is None:
        return True
    if force_at is not None and now >= max(deletion, force_at) + UNRESPONSIVE_AFTER:
        return False
    return now - deletion <= STUCK_AFTER


def _stays(pod: Object) -> bool:
    return pod_json.is_mirror(pod) or pod_json.tolerates(pod, pod_json.DISRUPTED)


def remaining_pods(node_pods: Iterable[Object], now: datetime, force_at: datetime | None = None) -> list[Object]:
    """Return the pods that a drain waits for, sorted by name."""
    waited = [pod for pod in node_pods if not pod_json.is_terminal(pod) and is_drainable(pod, now, force_at)]
    return sorted(waited, key=object_json.key)


def left_behind(node_pods: Iterable[Object], now: datetime, force_at: datetime | None = None) -> list[Object]:
    """Return the pods that a drain deleted but no longer waits for, so that the reason can be reported."""
    stuck = [
        pod
        for pod in node_pods
        if not pod_json.is_terminal(pod) and not _stays(pod) and not is_drainable(pod, now, force_at)
    ]
    return sorted(stuck, key=object_json.key)


def wave(pod: Object) -> int:
    """The pod's wave in the drain order, from 0."""
    return 2 * pod_json.is_critical(pod) + pod_json.is_daemon(pod)


def current_wave(waited: Sequence[Object]) -> int:
    """Return the first wave that still has pods; `WAVES` if none has."""
    return min((wave(pod) for pod in waited), default=WAVES)


def decide(pod: Object, now: datetime, *, turn: bool, force_at: datetime | None, force: bool) -> Action:
    """Decide what to do with an awaited pod now.

    Args:
        pod: one of `remaining_pods`.
        now: the current time.
        turn: whether the pod's wave is the current one. Deletion at the end of the grace period ignores waves.
        force_at: when the pod must be gone (terminationGracePeriod), whatever protects it.
        force: whether an operator asked to delete pods at once.
    """
    deletion = object_json.deletion_instant(pod)
    if force:
        return _forced(pod, deletion, now)
    if force_at is not None:
        if deletion is not None and deletion > force_at:
            return _shortened(pod, deletion, force_at)
        if deletion is None and now >= force_at - timedelta(seconds=pod_json.grace_seconds(pod)):
            return Action(Kind.DELETE, grace_seconds=_whole_seconds(force_at - now))
    if deletion is not None:
        held = object_json.finalizers(pod) and now - deletion >= UNRESPONSIVE_AFTER
        return Action(Kind.AWAIT, why=overdue_termination(pod) if held else "")
    if not turn:
        return Action(Kind.AWAIT)
    if protection := pod_json.protection(pod, now):
        notice = forced_deletion_notice(pod, force_at, now)
        return Action(Kind.AWAIT, why=f"pod {object_json.key(pod)} cannot be evicted: {protection}{notice}")
    return Action(Kind.EVICT)


def _forced(pod: Object, deletion: datetime | None, now: datetime) -> Action:
    """Delete with a short grace period first, and with none if the kubelet does not respond."""
    if deletion is None:
        return Action(Kind.DELETE, grace_seconds=1)
    if deletion > now:
        return _shortened(pod, deletion, now)
    if now - deletion >= UNRESPONSIVE_AFTER:
        return Action(Kind.DELETE, grace_seconds=0)
    return Action(Kind.AWAIT)


def _shortened(pod: Object, deletion: datetime, end: datetime) -> Action:
    """Shorten a deletion in progress so that it ends by ``end``. Kubernetes counts the grace period from its start."""
    granted = pod_json.granted_seconds(pod)
    shorter = _whole_seconds(end - (deletion - timedelta(seconds=granted)))
    return Action(Kind.DELETE, grace_seconds=shorter) if shorter < granted else Action(Kind.AWAIT)


def _whole_seconds(remaining: timedelta) -> int:
    """Round up, and never return 0: that would remove the pod from the API while its containers still run."""
    return max(1, math.ceil(remaining.total_seconds()))


def next_force(waited: Iterable[Object], force_at: datetime | None, now: datetime) -> datetime | None:
    """Return when the first of these pods must be deleted, whatever protects it. The drain must not sleep past it."""
    if force_at is None:
        return None
    instants = [
        force_at - timedelta(seconds=pod_json.grace_seconds(pod))
        for pod in waited
        if object_json.deletion_instant(pod) is None
    ]
    return min((instant for instant in instants if instant > now), default=max(force_at, now))


def force_instant(deletion: datetime, grace_seconds: float | None, *explicit: datetime | None) -> datetime | None:
    """Return when the drain becomes forced: the earliest of ``explicit`` and the end of the grace period."""
    instants = [instant for instant in explicit if instant is not None]
    if grace_seconds is not None:
        instants.append(deletion + timedelta(seconds=grace_seconds))
    return min(instants, default=None)
