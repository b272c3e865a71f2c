"""Counts containers that restarted on a node. The cache does not have that, because it changes all the time."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import PODS
from tenon.kube.timestamps import parse_instant


@dataclass(frozen=True, slots=True)
class ContainerCounts:
    """The containers of the pods on one node, without those of DaemonSets and of the kubelet's own manifests."""

    containers: int = 0
    restarts: int = 0
    """How many ended and were started again since a time. One that did so several times counts once, because Kubernetes
    remembers only the last end."""
    crash_loops: int = 0
    """How many wait in CrashLoopBackOff."""


async def count_containers(
    kube: Kube, node_name: str, since: datetime, ignored_owners: Collection[str] = ()
) -> ContainerCounts:
    """Count the containers on a node, and those that restarted since a time.

    Pods of the controllers with these UIDs do not count.

    Raises:
        ApiError: the API server did not list the pods.
    """
    pods = await kube.list(PODS, field_selector=f"spec.nodeName={node_name}", limit=0, resource_version="0")
    statuses = [status for pod in pods if _counts(pod, ignored_owners) for status in _statuses(pod)]
    return ContainerCounts(
        containers=len(statuses),
        restarts=sum(_restarted(status, since) for status in statuses),
        crash_loops=sum(_loops(status) for status in statuses),
    )


def _counts(pod: dict[str, Any], ignored_owners: Collection[str]) -> bool:
    """A pod of a DaemonSet or of the kubelet does not move with a rollout."""
    controllers = [owner for owner in pod["metadata"].get("ownerReferences") or () if owner.get("controller")]
    return not any(
        owner.get("kind") in ("DaemonSet", "Node") or owner.get("uid") in ignored_owners for owner in controllers
    )


def _statuses(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return list((pod.get("status") or {}).get("containerStatuses") or ())


def _restarted(status: dict[str, Any], since: datetime) -> bool:
    ended = ((status.get("lastState") or {}).get("terminated") or {}).get("finishedAt")
    instant = parse_instant(ended)
    return instant is not None and instant >= since


def _loops(status: dict[str, Any]) -> bool:
    waiting = (status.get("state") or {}).get("waiting") or {}
    return bool(waiting.get("reason") == "CrashLoopBackOff")
