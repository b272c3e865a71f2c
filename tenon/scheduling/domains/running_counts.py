"""Counts the pods on existing nodes in each topology group, once for all attempts to plan a batch.

For spread and affinity, a pod counts only if its node's domain is settled. For anti-affinity, it counts in every domain
that its node may still get.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tenon.scheduling.domains.domain_values import ANY, counts_node, value_on_node
from tenon.scheduling.existing.existing_nodes import Room
from tenon.scheduling.pods.hostname_rules import Counts
from tenon.scheduling.pods.node_facts import PodKind
from tenon.scheduling.pods.pod_classes import PodClass
from tenon.scheduling.pods.topology import Topology
from tenon.scheduling.pods.topology_groups import ANTI_AFFINITY, HOSTNAME, SPREAD

Tally = dict[str, int]
"""By domain, a number of pods."""


class RunningCounts:
    """The counts of a batch before any of its pods is placed."""

    def __init__(self, topology: Topology, rooms: Sequence[Room], classes: Iterable[PodClass]) -> None:
        """Count the pods on these nodes in each group that matters to the classes of the batch."""
        self._groups = topology.groups
        self.counts: dict[int, Tally] = {}
        self.possible: dict[int, Tally] = {}
        self.holders: dict[int, Tally] = {}
        self.totals: dict[int, int] = {}
        self.on_hosts: list[Counts] = [{} for _ in rooms]
        """By node, in the order of the nodes."""
        if len(self._groups):
            self._count_all(topology, rooms, topology.idle(pod_class.part for pod_class in classes))

    def _count_all(self, topology: Topology, rooms: Sequence[Room], idle: frozenset[int]) -> None:
        groups_of: dict[PodKind, tuple[Sequence[int], Sequence[int]]] = {}
        for room, hosts in zip(rooms, self.on_hosts, strict=True):
            for kind, pods in room.kinds:
                groups = groups_of.get(kind)
                if groups is None:
                    counting = self._groups.counting(kind.namespace, kind.labels)
                    groups = groups_of[kind] = (
                        [group for group in counting if group not in idle],
                        [group for group in topology.held(kind) if group not in idle],
                    )
                for group in groups[0]:
                    self._count(room, hosts, group, pods)
                for group in groups[1]:
                    self._hold(room, hosts, group, pods)

    def _count(self, room: Room, hosts: Counts, number: int, pods: int) -> None:
        """Count pods of a group."""
        group = self._groups[number]
        if group.key == HOSTNAME:
            hosts[number] = hosts.get(number, 0) + pods
            self.totals[number] = self.totals.get(number, 0) + pods
            return
        domain = value_on_node(room, group.key)
        if domain is not None and counts_node(room, group.nodes):
            add(self.counts, number, domain, pods)
        if group.kind != SPREAD:
            values = room.values.get(group.key)
            if not (values.may_be_absent and values.complement):
                self.totals[number] = self.totals.get(number, 0) + pods
        if group.kind == ANTI_AFFINITY:
            for value in possible_on(room, group.key):
                add(self.possible, number, value, pods)

    def _hold(self, room: Room, hosts: Counts, number: int, pods: int) -> None:
        """Count pods that have anti-affinity to a group."""
        key = self._groups[number].key
        if key == HOSTNAME:
            hosts[~number] = hosts.get(~number, 0) + pods
        else:
            for value in possible_on(room, key):
                add(self.holders, number, value, pods)


def possible_on(room: Room, key: str) -> Iterable[str]:
    """The domains that an existing or in-flight node may be in."""
    values = room.values.get(key)
    if not values.complement:
        return values.values
    return () if room.settled else (ANY,)


def add(tallies: dict[int, Tally], group: int, domain: str, pods: int) -> None:
    """Count pods of a group in a domain."""
    tally = tallies.setdefault(group, {})
    tally[domain] = tally.get(domain, 0) + pods
