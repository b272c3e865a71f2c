"""Puts pods on nodes of the model that are ready, as kube-scheduler would with the scores of its default profile.

Tenon plans only for pods that fit nowhere. Which of several nodes takes a pod decides how full nodes become and how
often their pods change, and so what consolidation finds. Pods with rules between pods, volumes or host ports are left
to the planner, which knows them.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Iterable, Iterator, Sequence

import numpy as np

from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.kube.requirements import Requirements
from tenon.kube.taints import tolerate, untolerated
from tenon.resources import CPU, MEMORY, Resources, fits
from tenon.scheduling.model import Node
from tenon.shadow.cluster import ModelCluster
from tenon.shadow.kube_scores import (
    BALANCED,
    LEAST_ALLOCATED,
    SPREAD,
    SPREAD_OWNERS,
    TAINTS,
    UNSTATED,
    Flags,
    Floats,
    Integers,
    balanced,
    few_taints,
    least_allocated,
    spread,
)
from tenon.shadow.nodes import ModelNode
from tenon.shadow.pods import ModelPod


def bind(cluster: ModelCluster, now: float) -> int:
    """Bind the pods that wait, or whose node is not ready, to ready nodes with room. Return how many were bound."""
    pods = sorted(_unbound(cluster, now), key=lambda pod: (-pod.live.pod.priority, pod.live.pod.created, pod.live.uid))
    if not pods:
        return 0
    nodes = [node for node in cluster.nodes.values() if node.stays and now >= node.ready]
    if not nodes:
        return 0
    rooms = Rooms(cluster, nodes, pods, now)
    bound = 0
    for pod in pods:
        if name := rooms.take(pod):
            cluster.place(pod.live.uid, name, now)
            bound += 1
    return bound


def _unbound(cluster: ModelCluster, now: float) -> Iterator[ModelPod]:
    yield from (pod for pod in cluster.waiting() if is_plain(pod.live.pod))
    for node in cluster.nodes.values():
        if node.stays and now < node.ready and not node.created_for:
            yield from (cluster.pods[uid] for uid, pod in node.pods.items() if is_plain(pod))


def is_plain(pod: Pod) -> bool:
    """Whether resources, taints and node affinity are all that limits where the pod runs."""
    return not (pod.rules or pod.volume_terms or pod.attachments or pod.exclusive or pod.local_disks or pod.host_ports)


def _constraints(pod: Pod) -> Hashable:
    return pod.tolerations, tuple(tuple(term.values()) for term in pod.required_terms)


def _workload(pod: ModelPod) -> tuple[str, str]:
    """Return what pods have in common that kube-scheduler spreads over nodes and zones by default."""
    return pod.live.pod.namespace, pod.live.pod.workload


class Rooms:
    """What is left on nodes, and how many pods of each workload are on them."""

    def __init__(self, cluster: ModelCluster, nodes: Sequence[ModelNode], pods: Iterable[ModelPod], now: float) -> None:
        """Note what is on the nodes.

        Args:
            cluster: the model, which knows the pods of the nodes.
            nodes: those that take pods.
            pods: those that may come.
            now: seconds since the epoch.
        """
        self._names = [node.name for node in nodes]
        self._views = [node.seen_by_engine(now) for node in nodes]
        resources = [CPU, MEMORY, *sorted({name for view in self._views for name in view.allocatable} - {CPU, MEMORY})]
        self._column = {name: column for column, name in enumerate(resources)}
        self._allocatable = self._table(view.allocatable for view in self._views)
        self._requested = self._table(view.used for view in self._views)
        zones = [node.base.labels.get(labels.ZONE, "") for node in nodes]
        self._zones: Integers = np.unique(zones, return_inverse=True)[1]
        self._accepting: dict[Hashable, Flags] = {}
        """By constraints, whether each node accepts pods that have them."""
        self._refused: dict[Hashable, list[Resources]] = {}
        """By constraints, requests that fit nowhere. Larger ones do not fit either, because nodes only fill up."""
        self._avoiding: dict[Hashable, Floats] = {}
        """By tolerations, how many taints of each node ask pods that have them to stay away."""
        self._unstated = np.zeros((len(nodes), 2))
        """What LeastAllocated counts for pods that state no request of CPU or memory."""
        self._replicas = {_workload(pod): np.zeros(len(nodes)) for pod in pods if _is_spread(pod)}
        for index, node in enumerate(nodes):
            for uid in node.pods:
                present = cluster.pods[uid]
                if not _states_requests(present.live.pod):
                    self._unstated[index] += _unstated(present.live.pod)
                counts = self._replicas.get(_workload(present))
                if counts is not None and not present.live.ends:
                    counts[index] += 1

    def take(self, pod: ModelPod) -> str:
        """Use the room of one of the nodes with the best score. Return its name; empty if no node holds the pod."""
        best = self._best(pod)
        if not len(best):
            return ""
        index = int(best[zlib.crc32(pod.live.uid.encode()) % len(best)])  # kube-scheduler draws one of them
        self._requested[index] += self._table([pod.live.pod.requests])[0]
        self._unstated[index] += _unstated(pod.live.pod)
        if (counts := self._replicas.get(_workload(pod))) is not None:
            counts[index] += 1
        return self._names[index]

    def best_nodes(self, pod: ModelPod) -> list[str]:
        """Return the names of the nodes with the best score."""
        return [self._names[index] for index in self._best(pod)]

    def _best(self, pod: ModelPod) -> Integers:
        requests = pod.live.pod.requests
        key = _constraints(pod.live.pod)
        refused = self._refused.setdefault(key, [])
        unknown = any(amount and name not in self._column for name, amount in requests.items())
        if unknown or any(fits(smaller, requests) for smaller in refused):
            return np.empty(0, np.int64)
        request = self._table([requests])[0]
        holds = ((self._requested + request <= self._allocatable) | (request == 0)).all(axis=1)
        feasible: Integers = np.flatnonzero(self._accepting_nodes(key, pod.live.pod) & holds)
        if not len(feasible):
            refused.append(requests)
            return feasible
        before, allocatable = self._requested[feasible, :2], self._allocatable[feasible, :2]
        unstated = self._unstated[feasible] + _unstated(pod.live.pod)
        scores = LEAST_ALLOCATED * least_allocated(before + request[:2] + unstated, allocatable)
        scores += BALANCED * balanced(before, before + request[:2], allocatable)
        scores += TAINTS * few_taints(self._taints_to_avoid(pod.live.pod)[feasible])
        if (counts := self._replicas.get(_workload(pod))) is not None and _is_spread(pod):
            zones = self._zones[feasible]
            in_zone = np.bincount(self._zones, weights=counts)[zones].astype(np.float64)
            scores += SPREAD * spread(counts[feasible], in_zone, len(np.unique(zones)))
        best: Integers = feasible[scores == scores.max()]
        return best

    def _table(self, amounts: Iterable[Resources]) -> Floats:
        """Return a row for each of the amounts, with a column for each resource."""
        return np.array([[amount.get(name, 0) for name in self._column] for amount in amounts], float)

    def _taints_to_avoid(self, pod: Pod) -> Floats:
        if pod.tolerations not in self._avoiding:
            self._avoiding[pod.tolerations] = np.array([_to_avoid(view, pod) for view in self._views], float)
        return self._avoiding[pod.tolerations]

    def _accepting_nodes(self, key: Hashable, pod: Pod) -> Flags:
        if key not in self._accepting:
            self._accepting[key] = np.array([_accepts(view, pod) for view in self._views], bool)
        return self._accepting[key]


def _is_spread(pod: ModelPod) -> bool:
    return pod.live.record.owner_kind in SPREAD_OWNERS


def _unstated(pod: Pod) -> Floats:
    """Return what LeastAllocated counts for the requests of CPU and memory that the pod does not state."""
    return np.array([0 if pod.requests.get(name) else amount for name, amount in UNSTATED.items()], float)


def _states_requests(pod: Pod) -> bool:
    return bool(pod.requests.get(CPU) and pod.requests.get(MEMORY))


def _to_avoid(node: Node, pod: Pod) -> int:
    avoided = (taint for taint in node.taints if taint.effect == "PreferNoSchedule")
    return sum(not tolerate(pod.tolerations, taint) for taint in avoided)


def _accepts(node: Node, pod: Pod) -> bool:
    """Return whether the node's taints and labels let the pod run there."""
    if untolerated(pod.tolerations, node.taints) is not None:
        return False
    of_node = Requirements.from_labels(node.labels) if pod.required_terms else None
    return of_node is None or any(of_node.conflict(term) is None for term in pod.required_terms)
