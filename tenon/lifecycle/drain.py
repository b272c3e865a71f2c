"""How a node is emptied: which pods, in which order, and when asking ends and force begins.

Four waves, each gone before the next is asked: ordinary pods, ordinary DaemonSet pods, critical pods, critical
DaemonSet pods. Eviction respects PodDisruptionBudgets and do-not-disrupt; force respects only time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from tenon.kube import pods
from tenon.kube.protection import pod_protected
from tenon.kube.structs import Object
from tenon.kube.timestamps import parse_instant
from tenon.lifecycle.drain_blockers import lingering, sentenced

STUCK_AFTER = timedelta(minutes=1)
"""How long past the end of its grace a terminating pod is still waited for."""
UNRESPONSIVE_AFTER = timedelta(seconds=5)
"""Under force: how long past the end of its grace a pod waits for a kubelet that does not answer."""
WAVES = 4


class Kind(StrEnum):
    """What to do about one pod now."""

    EVICT = "evict"
    DELETE = "delete"
    AWAIT = "await"


@dataclass(frozen=True, slots=True)
class Action:
    """``grace_seconds`` goes with DELETE; ``why`` says what an awaited pod is held by, if a person could change it."""

    kind: Kind
    grace_seconds: int | None = None
    why: str = ""


def is_drainable(pod: Object, now: datetime, force_at: datetime | None = None) -> bool:
    """Whether draining takes this pod off the node: no mirror, no pod that tolerates the taint, none that is stuck.

    Once the grace period of the node is over (``force_at``), a pod that does not end counts as stuck at once.
    """
    if _stays(pod):
        return False
    deletion = pods.deletion_instant(pod)
    if deletion is None:
        return True
    if force_at is not None and now >= max(deletion, force_at) + UNRESPONSIVE_AFTER:
        return False
    return now - deletion <= STUCK_AFTER


def _stays(pod: Object) -> bool:
    return pods.is_mirror(pod) or pods.tolerates(pod, pods.DISRUPTED)


def awaited(node_pods: Iterable[Object], now: datetime, force_at: datetime | None = None) -> list[Object]:
    """The pods that a drain waits for, in the order of their names."""
    waited = [pod for pod in node_pods if not pods.is_terminal(pod) and is_drainable(pod, now, force_at)]
    return sorted(waited, key=pods.key)


def left_behind(node_pods: Iterable[Object], now: datetime, force_at: datetime | None = None) -> list[Object]:
    """The pods that a drain has ended but no longer waits for: what keeps them is worth telling."""
    stuck = [
        pod
        for pod in node_pods
        if not pods.is_terminal(pod) and not _stays(pod) and not is_drainable(pod, now, force_at)
    ]
    return sorted(stuck, key=pods.key)


def wave(pod: Object) -> int:
    """The pod's place in the drain order, from 0."""
    return 2 * pods.is_critical(pod) + pods.is_daemon(pod)


def waves(node_pods: Iterable[Object], now: datetime) -> tuple[tuple[Object, ...], ...]:
    """The awaited pods by wave; each of them is in exactly one."""
    waited = awaited(node_pods, now)
    return tuple(tuple(pod for pod in waited if wave(pod) == number) for number in range(WAVES))


def current_wave(waited: Sequence[Object]) -> int:
    """The wave whose turn it is: the first that still has pods."""
    return min((wave(pod) for pod in waited), default=WAVES)


def decide(pod: Object, now: datetime, *, turn: bool, force_at: datetime | None, force: bool) -> Action:
    """What to do about an awaited pod now.

    Args:
        pod: one of `awaited`.
        now: the present instant.
        turn: whether its wave is the current one. Deletion at the end of the grace period ignores turns.
        force_at: the instant by which the pod must have ended (TGP), however it is protected.
        force: an operator's wish that pods be deleted at once.
    """
    deletion = pods.deletion_instant(pod)
    if force:
        return _forced(pod, deletion, now)
    if force_at is not None:
        if deletion is not None and deletion > force_at:
            return _hastened(pod, deletion, force_at)
        if deletion is None and now >= force_at - timedelta(seconds=pods.grace_seconds(pod)):
            return Action(Kind.DELETE, grace_seconds=_whole_seconds(force_at - now))
    if deletion is not None:
        held = pod["metadata"].get("finalizers") and now - deletion >= UNRESPONSIVE_AFTER
        return Action(Kind.AWAIT, why=lingering(pod) if held else "")
    if not turn:
        return Action(Kind.AWAIT)
    started = parse_instant((pod.get("status") or {}).get("startTime"))
    protection = pod_protected(pod["metadata"].get("annotations") or {}, started, now)
    if protection:
        return Action(
            Kind.AWAIT, why=f"pod {pods.key(pod)} cannot be evicted: {protection}{sentenced(pod, force_at, now)}"
        )
    return Action(Kind.EVICT)


def _forced(pod: Object, deletion: datetime | None, now: datetime) -> Action:
    """Force asks the kubelet to be quick, and goes without its answer when none comes."""
    if deletion is None:
        return Action(Kind.DELETE, grace_seconds=1)
    if deletion > now:
        return _hastened(pod, deletion, now)
    if now - deletion >= UNRESPONSIVE_AFTER:
        return Action(Kind.DELETE, grace_seconds=0)
    return Action(Kind.AWAIT)


def _hastened(pod: Object, deletion: datetime, end: datetime) -> Action:
    """Shorten a deletion under way so that it ends by ``end``: its grace always counts from when it began."""
    granted = pods.granted_seconds(pod)
    shorter = _whole_seconds(end - (deletion - timedelta(seconds=granted)))
    return Action(Kind.DELETE, grace_seconds=shorter) if shorter < granted else Action(Kind.AWAIT)


def _whole_seconds(remaining: timedelta) -> int:
    """Never 0, which would take the pod from the API while its containers still run."""
    return max(1, math.ceil(remaining.total_seconds()))


def next_force(waited: Iterable[Object], force_at: datetime | None, now: datetime) -> datetime | None:
    """When the first of these pods must be deleted, however it is protected; the drain must not sleep beyond it."""
    if force_at is None:
        return None
    instants = [
        force_at - timedelta(seconds=pods.grace_seconds(pod)) for pod in waited if pods.deletion_instant(pod) is None
    ]
    return min((instant for instant in instants if instant > now), default=max(force_at, now))


def force_instant(deletion: datetime, grace_seconds: float | None, *explicit: datetime | None) -> datetime | None:
    """When draining becomes forceful: the earliest of deletion plus the claim's grace period and what was asked for."""
    instants = [instant for instant in explicit if instant is not None]
    if grace_seconds is not None:
        instants.append(deletion + timedelta(seconds=grace_seconds))
    return min(instants, default=None)
