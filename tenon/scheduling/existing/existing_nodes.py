"""Places pods on existing and in-flight nodes, before anything is bought."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from tenon.apis import labels
from tenon.kube.host_ports import HostPort, first_conflict
from tenon.kube.pod import Pod
from tenon.kube.requirements import Requirements
from tenon.kube.taints import Taint
from tenon.scheduling.deadline import Expired, never
from tenon.scheduling.model import Node, Pool
from tenon.scheduling.pods.blast_radius import BlastRadius, WorkloadKey
from tenon.scheduling.pods.hostname_rules import Counts
from tenon.scheduling.pods.node_facts import NodeFacts
from tenon.scheduling.pods.pod_classes import Amounts, PodClass, workload_key

_NOTHING: Counter[WorkloadKey] = Counter()
"""What nodes carry of workloads if the batch does not limit that."""


class Room:
    """What a node has left for pods."""

    __slots__ = (
        "_attached", "_carried", "_limits", "_shares", "_suits", "free", "hosts", "kinds", "labels", "name", "open",
        "placed", "ports", "settled", "stopped", "taints", "values",
    )  # fmt: skip

    def __init__(
        self,
        node: Node,
        names: tuple[str, ...],
        startup_taints: Iterable[Taint],
        shares: BlastRadius,
        facts: NodeFacts,
    ) -> None:
        self.name = node.name
        self.free: Sequence[int] = facts.free_on(node, names)
        self.ports: list[HostPort] = list(node.host_ports)
        self.taints = lasting_taints(node, startup_taints)
        self.labels = facts.labels_of(node)
        self.values, self.settled = self.labels.values, self.labels.settled
        self.placed: list[Pod] = []
        self.kinds = facts.kinds_on(node)
        """The kinds of the pods that run on the node or are promised to it, and how many of each."""
        self.hosts: Counts = {}
        self.stopped = node.stopped
        self.open = not node.closed and min(self.free) >= 0
        """Whether the node takes pods at all."""
        self._limits = node.volume_limits
        self._attached: set[tuple[str, str]] = set()
        if node.volume_limits:
            self._attached.update(volume for pod in node.pods for volume in pod.attachments)
        self._suits: dict[tuple[object, ...], bool] = {}
        self._shares = shares
        self._carried = Counter[WorkloadKey](map(workload_key, node.pods)) if shares.limited else _NOTHING

    def room_for(self, pod_class: PodClass, limit: int) -> int:
        """How many of ``limit`` pods of the class fit."""
        if pod_class.daemons is not None and pod_class.daemons.needed:
            return 0  # the pods that run on an existing node are known
        count = self._count(pod_class.amounts, limit)
        if count and pod_class.host is not None:
            count = min(count, pod_class.host.room(self.hosts))
        if self._shares.limited and not self._shares.new_nodes_only:
            count = min(count, self._shares.most(pod_class) - self._carried[self._shares.workload(pod_class)])
        if count <= 0 or not self._suited(pod_class):
            return 0
        if pod_class.ports:
            count = 1 if first_conflict(pod_class.ports, self.ports) is None else 0
        return count if self._attachable(pod_class) else 0

    def take(self, pod_class: PodClass, start: int, limit: int | None = None) -> int:
        """Place as many of the class's pods as fit, from number ``start`` on. Return how many."""
        remaining = len(pod_class.pods) - start
        count = self.room_for(pod_class, remaining if limit is None else min(remaining, limit))
        if not count:
            return 0
        self.ports.extend(pod_class.ports)
        if pod_class.host is not None:
            pod_class.host.put(self.hosts, count)
        if self._shares.limited:
            self._carried[self._shares.workload(pod_class)] += count
        if self._limits:
            self._attached.update(pod_class.attachments)
        self.free = [free - count * amount for free, amount in zip(self.free, pod_class.amounts, strict=True)]
        self.placed.extend(pod_class.pods[start : start + count])
        return count

    def _count(self, amounts: Amounts, limit: int) -> int:
        for free, amount in zip(self.free, amounts, strict=True):
            if amount > 0:
                limit = min(limit, free // amount)
                if limit <= 0:
                    return 0
        return limit

    def _suited(self, pod_class: PodClass) -> bool:
        key = (pod_class.terms, pod_class.tolerations)
        if key not in self._suits:
            # PreferNoSchedule keeps no pods off an existing node: kube-scheduler would use it before a new node starts
            hard = [taint for taint in self.taints if taint.effect != "PreferNoSchedule"]
            self._suits[key] = pod_class.tolerates(hard) and any(map(self.meets, pod_class.terms))
        return self._suits[key]

    def _attachable(self, pod_class: PodClass) -> bool:
        """Whether the volumes of one more pod can be attached. Volumes already attached do not count again."""
        if not self._limits or not pod_class.attachments:
            return True
        together = self._attached.union(pod_class.attachments)
        return all(
            sum(1 for driver, _ in together if driver == limited) <= limit
            for limited, limit in self._limits.items()
            if any(driver == limited for driver, _ in pod_class.attachments)
        )

    def meets(self, term: Requirements) -> bool:
        """Whether the node certainly meets a term."""
        return self.labels.meet(term)


def lasting_taints(node: Node, startup_taints: Iterable[Taint]) -> tuple[Taint, ...]:
    """The taints that remain. A starting node loses its startup taints and those of a node that is not yet ready."""
    if node.initialized:
        return node.taints
    startup = {(taint.key, taint.effect) for taint in startup_taints}
    return tuple(
        taint
        for taint in node.taints
        if (taint.key, taint.effect) not in startup and not labels.is_ephemeral_taint(taint.key, taint.effect)
    )


def rooms_of(
    nodes: Iterable[Node],
    pools: Iterable[Pool],
    names: tuple[str, ...],
    shares: BlastRadius | None = None,
    facts: NodeFacts | None = None,
) -> list[Room]:
    """All nodes, including those that take no pods, in the order in which they are filled."""
    startup = {pool.name: pool.startup_taints for pool in pools}
    ordered = sorted(nodes, key=lambda node: (not node.initialized, node.stopped, node.start_price, node.name))
    shares, facts = shares or BlastRadius(), facts or NodeFacts()
    return [Room(node, names, startup.get(node.labels.get(labels.NODEPOOL, ""), ()), shares, facts) for node in ordered]


def place(classes: Sequence[PodClass], rooms: Sequence[Room], expired: Expired = never) -> list[int]:
    """Place the pods where they fit. Return how many of each class were placed.

    A stopped node that starts for earlier pods is filled before another one, even a cheaper one, is started.
    """
    placed_counts = []
    stopped = [room for room in rooms if room.stopped]
    running = rooms if not stopped else [room for room in rooms if not room.stopped]
    for pod_class in classes:
        cpu, total, placed_count = pod_class.amounts[0], len(pod_class.pods), 0
        stopped.sort(key=lambda room: not room.placed)
        for room in chain(running, stopped) if not expired() else ():
            if room.open and room.free[0] >= cpu:
                # of pods of one class that share a host port, each node takes one
                placed_count += room.take(pod_class, placed_count)
                if placed_count == total:
                    break
        placed_counts.append(placed_count)
    return placed_counts
