"""Finds pods that a command moved and that kube-scheduler bound to another node than the command planned.

Only the NodeClaims of the planned nodes say which pods a command sent there. Without this, consolidation would take the
others for pods that never moved, and would move them again within minutes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tenon.disruption.history.arrivals import REMEMBERED, Arrival, created_within, workload_mark
from tenon.disruption.nodes import ManagedNode, NodeDetail
from tenon.kube.pod import Pod

DIRECTLY = timedelta(minutes=1)
"""A pod of the workload that is created on the planned node so soon is one that was sent there."""


@dataclass(frozen=True, slots=True)
class PodElsewhere:
    """A pod that a command moved, on another node than the command planned."""

    planned: str
    """The NodeClaim of the planned node."""
    claim: str
    """The NodeClaim of the pod's node."""
    arrival: Arrival
    """What the planned node's NodeClaim says of the pod."""


class PodsElsewhere:
    """Knows these pods also after their planned node is gone, and with it what its NodeClaim said.

    Only in memory: after a restart, consolidation may move such a pod once more than it should.
    """

    def __init__(self) -> None:
        self._pods_elsewhere: tuple[PodElsewhere, ...] = ()

    def added_to(
        self, nodes: Sequence[ManagedNode], details: Mapping[str, NodeDetail], now: datetime
    ) -> Sequence[ManagedNode]:
        """Return the nodes, with the arrivals of pods that went elsewhere on the nodes where they are.

        ``details``: by NodeClaim, for the pods.
        """
        present = {node.claim for node in nodes}
        remembered = (
            pod_elsewhere for pod_elsewhere in self._pods_elsewhere if _only_known_here(pod_elsewhere, present, now)
        )
        self._pods_elsewhere = (*pods_elsewhere(nodes, details, now), *remembered)
        if not self._pods_elsewhere:
            return nodes
        arrivals: dict[str, list[Arrival]] = defaultdict(list)
        for pod_elsewhere in self._pods_elsewhere:
            arrivals[pod_elsewhere.claim].append(pod_elsewhere.arrival)
        return [replace(node, arrivals=(*node.arrivals, *arrivals.get(node.claim, ()))) for node in nodes]


def _only_known_here(pod_elsewhere: PodElsewhere, present: Collection[str], now: datetime) -> bool:
    return (
        pod_elsewhere.planned not in present
        and pod_elsewhere.claim in present
        and now - pod_elsewhere.arrival.at < REMEMBERED
    )


def pods_elsewhere(
    nodes: Sequence[ManagedNode], details: Mapping[str, NodeDetail], now: datetime
) -> list[PodElsewhere]:
    """Return the pods that did not go where their commands sent them.

    As many pods of a workload count as moved as were sent: those that were soon created on the planned node, and then
    the first that were created on any. A Deployment that grows meanwhile creates its pods later.
    """
    sent_pods = _sent(nodes, now)
    if not sent_pods:
        return []
    created = _created({sent_pod.mark for sent_pod in sent_pods}, nodes, details)
    taken_keys: set[str] = set()
    missing = []
    for sent_pod in sent_pods:
        soon = created[sent_pod.mark].between(*created_within(sent_pod.arrival.at, DIRECTLY))
        direct = [pod for claim, pod in soon if claim == sent_pod.claim and pod.key not in taken_keys][: sent_pod.pods]
        taken_keys.update(pod.key for pod in direct)
        if len(direct) < sent_pod.pods:
            missing.append((sent_pod, sent_pod.pods - len(direct)))
    elsewhere = []
    for sent_pod, pods in missing:
        others = created[sent_pod.mark].between(*created_within(sent_pod.arrival.at))
        created_pods = [(claim, pod) for claim, pod in others if pod.key not in taken_keys][:pods]
        taken_keys.update(pod.key for _, pod in created_pods)
        arrival = Arrival(sent_pod.arrival.at, {sent_pod.mark: sent_pod.arrival.times[sent_pod.mark]})
        elsewhere += [
            PodElsewhere(sent_pod.claim, claim, arrival) for claim, _ in created_pods if claim != sent_pod.claim
        ]
    return elsewhere


@dataclass(frozen=True, slots=True)
class _SentPods:
    """Pods of a workload that a command sent to a node."""

    claim: str
    arrival: Arrival
    mark: str
    pods: int


def _sent(nodes: Sequence[ManagedNode], now: datetime) -> list[_SentPods]:
    """Return what commands sent in the last day, the latest first."""
    sent_pods = [
        _SentPods(node.claim, arrival, mark, pods)
        for node in nodes
        for arrival in node.arrivals
        if now - arrival.at < REMEMBERED
        for mark, pods in arrival.pods.items()
        if mark in arrival.times
    ]
    return sorted(sent_pods, key=lambda sent_pod: sent_pod.arrival.at, reverse=True)


class _Created:
    """The pods of a workload with their NodeClaims, in the order of their creation."""

    def __init__(self, pods: Sequence[tuple[str, Pod]]) -> None:
        self._pods = sorted(pods, key=lambda claim_and_pod: (claim_and_pod[1].created, claim_and_pod[1].key))
        self._times = [pod.created for _, pod in self._pods]

    def between(self, first: float, last: float) -> Sequence[tuple[str, Pod]]:
        """Return those created between two times, both included."""
        return self._pods[bisect_left(self._times, first) : bisect_right(self._times, last)]


def _created(
    marks: Collection[str], nodes: Sequence[ManagedNode], details: Mapping[str, NodeDetail]
) -> Mapping[str, _Created]:
    """Return the pods of these workloads, by workload mark."""
    created_by_mark: dict[str, list[tuple[str, Pod]]] = {mark: [] for mark in marks}
    for node in nodes:
        detail = details.get(node.claim)
        for pod in detail.pods if detail is not None else ():
            if (pods := created_by_mark.get(workload_mark(pod))) is not None:
                pods.append((node.claim, pod))
    return {mark: _Created(pods) for mark, pods in created_by_mark.items()}
