"""Finds pods that a command moved and that kube-scheduler bound to another node than the command planned.

Only the NodeClaims of the planned nodes say which pods a command sent there. Without this, consolidation would take the
others for pods that never moved, and would move them again within minutes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tenon.disruption.arrivals import REMEMBERED, Arrival, came_with, workload_mark
from tenon.disruption.model import ManagedNode, NodeDetail
from tenon.kube.pod import Pod


@dataclass(frozen=True, slots=True)
class _Missing:
    """Pods of a workload that did not come to the node where a command sent them."""

    arrival: Arrival
    pods: int


def with_strays(
    nodes: Sequence[ManagedNode], details: Mapping[str, NodeDetail], now: datetime
) -> Sequence[ManagedNode]:
    """Return the nodes, with the arrivals of pods that went elsewhere on the nodes where they are.

    Pods of the same workload that were created at that time count as those that are missing, the first of them first.
    ``details``: by NodeClaim, for the pods.
    """
    missing = _missing(nodes, details, now)
    if not missing:
        return nodes
    found: dict[str, list[Arrival]] = defaultdict(list)
    for mark, pods in _created(nodes, details, missing).items():
        taken: set[str] = set()
        for one in missing[mark]:
            came = [(claim, pod) for claim, pod in pods if pod.key not in taken and came_with(pod, one.arrival)]
            for claim, pod in came[: one.pods]:
                taken.add(pod.key)
                found[claim].append(Arrival(one.arrival.at, {mark: one.arrival.times[mark]}))
    return [replace(node, arrivals=(*node.arrivals, *found.get(node.claim, ()))) for node in nodes]


def _missing(
    nodes: Sequence[ManagedNode], details: Mapping[str, NodeDetail], now: datetime
) -> dict[str, list[_Missing]]:
    """Return the pods that did not come, by workload mark, the latest first."""
    found: dict[str, list[_Missing]] = defaultdict(list)
    for node in nodes:
        detail = details.get(node.claim)
        for arrival in node.arrivals:
            if now - arrival.at >= REMEMBERED:
                continue
            for mark, sent in arrival.pods.items():
                pods = detail.pods if detail is not None else ()
                came = sum(workload_mark(pod) == mark and came_with(pod, arrival) for pod in pods)
                if came < sent and mark in arrival.times:
                    found[mark].append(_Missing(arrival, sent - came))
    return {mark: sorted(each, key=lambda one: one.arrival.at, reverse=True) for mark, each in found.items()}


def _created(
    nodes: Sequence[ManagedNode], details: Mapping[str, NodeDetail], missing: Mapping[str, Sequence[_Missing]]
) -> dict[str, list[tuple[str, Pod]]]:
    """Return the pods of these workloads that came to no node as planned, with their NodeClaims, the oldest first."""
    found: dict[str, list[tuple[str, Pod]]] = defaultdict(list)
    for node in nodes:
        detail = details.get(node.claim)
        for pod in detail.pods if detail is not None else ():
            mark = workload_mark(pod)
            if mark in missing and not any(mark in one.times and came_with(pod, one) for one in node.arrivals):
                found[mark].append((node.claim, pod))
    return {mark: sorted(pods, key=lambda each: (each[1].created, each[1].key)) for mark, pods in found.items()}
