"""Puts pods on nodes of the model that are ready, as kube-scheduler would: on the one with the most free room.

Tenon plans only for pods that fit nowhere. Which of several nodes takes a pod decides how full nodes become, and so
what consolidation finds. Pods with rules between pods, volumes or host ports are left to the planner, which knows them.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator

from tenon.kube.pod import Pod
from tenon.kube.requirements import Requirements
from tenon.kube.taints import untolerated
from tenon.resources import CPU, MEMORY, Resources, add, fits, subtract
from tenon.shadow.cluster import ModelCluster
from tenon.shadow.nodes import ModelNode
from tenon.shadow.pods import ModelPod


def bind(cluster: ModelCluster, now: float) -> int:
    """Bind the pods that wait, or whose node is not ready, to ready nodes with room. Return how many were bound."""
    pods = sorted(_unbound(cluster, now), key=lambda pod: (-pod.live.pod.priority, pod.live.pod.created, pod.live.uid))
    if not pods:
        return 0
    ready = {name: node for name, node in cluster.nodes.items() if node.stays and now >= node.ready}
    queues: dict[Hashable, _Queue] = {}
    rooms = {name: _Room(node, now) for name, node in ready.items()}
    bound = 0
    for pod in pods:
        scheduling_pod = pod.live.pod
        key = _constraints(scheduling_pod)
        if key not in queues:
            queues[key] = _Queue({name: room for name, room in rooms.items() if room.accepts(scheduling_pod)})
        if name := queues[key].take(scheduling_pod.requests):
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


class _Room:
    """What is left on a node."""

    def __init__(self, node: ModelNode, now: float) -> None:
        engine_node = node.seen_by_engine(now)
        self._taints = engine_node.taints
        self._labels = engine_node.labels
        self._allocatable = engine_node.allocatable
        self.used: Resources = engine_node.used

    def accepts(self, pod: Pod) -> bool:
        """Return whether the node's taints and labels let the pod run there."""
        if untolerated(pod.tolerations, self._taints) is not None:
            return False
        of_node = Requirements.from_labels(self._labels) if pod.required_terms else None
        return of_node is None or any(of_node.conflict(term) is None for term in pod.required_terms)

    def holds(self, requests: Resources) -> bool:
        """Return whether the requests fit."""
        return fits(requests, subtract(self._allocatable, self.used))

    @property
    def fullness(self) -> float:
        """Return how full the node is, as kube-scheduler's LeastAllocated counts: CPU and memory alike."""
        return sum(self.used.get(name, 0) / max(1, self._allocatable.get(name, 0)) for name in (CPU, MEMORY))


class _Queue:
    """The nodes that accept pods with the same constraints, the emptiest first."""

    def __init__(self, rooms: dict[str, _Room]) -> None:
        self._rooms = rooms
        self._heap = [(room.fullness, name) for name, room in rooms.items()]
        heapq.heapify(self._heap)
        self._refused: list[Resources] = []
        """Requests that fit nowhere. Larger ones do not fit either, because nodes only fill up."""

    def take(self, requests: Resources) -> str:
        """Use the room of the emptiest node that holds the requests. Return its name; empty if none does."""
        if any(fits(refused, requests) for refused in self._refused):
            return ""
        passed: list[tuple[float, str]] = []
        host = ""
        while self._heap and not host:
            fullness, name = heapq.heappop(self._heap)
            room = self._rooms[name]
            if room.fullness != fullness:  # a pod of another queue came
                heapq.heappush(self._heap, (room.fullness, name))
            elif room.holds(requests):
                host, room.used = name, add(room.used, requests)
                passed.append((room.fullness, name))
            else:
                passed.append((fullness, name))
        for entry in passed:
            heapq.heappush(self._heap, entry)
        if not host:
            self._refused.append(requests)
        return host
