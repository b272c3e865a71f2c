"""Nodes that are being filled: how many more pods of a class fit on one, and which types it may then still become."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from operator import mul

from tenon.kube.host_ports import HostPort, first_conflict
from tenon.scheduling.offerings.template import SPOT_FLEXIBILITY, State, Template
from tenon.scheduling.pods.blast_radius import WorkloadKey
from tenon.scheduling.pods.hostname_rules import Counts
from tenon.scheduling.pods.pod_classes import PodClass

Load = list[tuple[PodClass, int]]
"""How many pods of each class, in queue order."""


class Bin:
    """A node to buy. ``types`` are those that hold all of its pods; at least one of ``requested`` stays among them."""

    __slots__ = (
        "_ceiling", "amounts", "hosts", "load", "permitted", "pods", "ports", "requested", "spot_floor", "state",
        "template", "types",
    )  # fmt: skip

    def __init__(self, template: Template, permitted: int, requested: int) -> None:
        """Create an empty node that may become any ``permitted`` type and must still fit one ``requested`` type."""
        self.template = template
        self.state = template.start
        self.permitted = permitted
        self.requested = requested
        self.types = self.state.types & permitted
        self.amounts: list[int] = [0] * len(template.table.names)
        self.load: Load = []
        self.pods = 0
        """How many pods the load has."""
        self.ports: list[HostPort] = []
        self.hosts: Counts = {}
        self.spot_floor = 0
        self._ceiling: tuple[int, ...] | None = None

    @property
    def empty(self) -> bool:
        """Whether the node has no pods."""
        return not self.load

    def room_for(self, pod_class: PodClass, count: int) -> tuple[int, State | None, int]:
        """Return how many of ``count`` pods of the class fit, and the state and the types that the node then has."""
        if pod_class.ports:
            count = 1 if count and first_conflict(pod_class.ports, self.ports) is None else 0
        if pod_class.host is not None:
            count = min(count, pod_class.host.room(self.hosts))
        shares = self.template.shares
        if shares.limited:
            workload = shares.workload(pod_class)
            replicas = sum(pods for loaded_class, pods in self.load if shares.workload(loaded_class) == workload)
            count = min(count, shares.most(pod_class) - replicas)
        limit = min(count, self._most(pod_class))
        if limit <= 0:
            return 0, None, 0
        for state in self.template.successors(self.state, pod_class):
            room, types = self._largest(state, pod_class, limit)
            if room:
                return room, state, types
        return 0, None, 0

    def put(self, pod_class: PodClass, count: int, state: State, types: int) -> None:
        """Add pods with the state and the types that `room_for` returned."""
        if self.empty or pod_class.near:
            self.spot_floor = self._floor(pod_class, state)
        self.amounts = [a + count * b for a, b in zip(self.amounts, pod_class.amounts, strict=True)]
        self.load.append((pod_class, count))
        self.pods += count
        self.ports.extend(pod_class.ports)
        if pod_class.host is not None:
            pod_class.host.put(self.hosts, count)
        self.state, self.types = state, types
        self._ceiling = None

    def add(self, pod_class: PodClass, count: int) -> int:
        """Add as many of the pods as fit. Return how many."""
        room, state, types = self.room_for(pod_class, count)
        if state is not None:
            self.put(pod_class, room, state, types)
        return room

    def stack(self, load: Load, state: State) -> bool:
        """Put a whole load on this empty node at once if all of it fits. The pods must not use host ports.

        ``state`` is the state of a new node with all these pods.
        """
        hosts: Counts = {}
        replicas: Counter[WorkloadKey] = Counter()
        shares = self.template.shares
        for pod_class, count in load:
            workload = shares.workload(pod_class)
            replicas[workload] += count
            if pod_class.ports or replicas[workload] > shares.most(pod_class):
                return False
            if pod_class.host is not None:
                if pod_class.host.room(hosts) < count:
                    return False
                pod_class.host.put(hosts, count)
        floor = self._floor(load[0][0], state)
        columns = zip(*(pod_class.amounts for pod_class, _ in load), strict=True)
        counts = [count for _, count in load]
        amounts = [sum(map(mul, column, counts)) for column in columns]
        types = self.template.fitting(state, amounts) & state.types & self.permitted
        if not self.admits(state, types, floor):
            return False
        self.state, self.types, self.amounts, self.load, self.hosts = state, types, amounts, list(load), hosts
        self.pods, self.spot_floor = sum(counts), floor
        self._ceiling = None
        return True

    def copy(self) -> Bin:
        """Another node with an equal load."""
        copied_bin = Bin(self.template, self.permitted, self.requested)
        copied_bin.state, copied_bin.types, copied_bin.amounts = self.state, self.types, self.amounts
        copied_bin.load, copied_bin.ports, copied_bin.spot_floor = list(self.load), list(self.ports), self.spot_floor
        copied_bin.pods = self.pods
        copied_bin.hosts = dict(self.hosts)
        return copied_bin

    def cheapest(self) -> int:
        """The number of the cheapest type that the node may become."""
        return self.template.cheapest(self.state, self.types)

    def restrict(self, types: int) -> None:
        """Leave only these types open."""
        self.permitted = self.types = types
        self._ceiling = None

    def give_way(self, types: int) -> bool:
        """Leave only these types open, because limits allow no others. Limits take precedence over spot flexibility."""
        if not self.admits(self.state, types, 0):
            return False
        self.restrict(types)
        self.spot_floor = min(self.spot_floor, (types & self.state.market.spot).bit_count())
        return True

    def admits(self, state: State, types: int, floor: int | None = None) -> bool:
        """Whether a node with these types can be bought and is as flexible as its pool and its market require."""
        lowest_count = self.spot_floor if floor is None else floor
        return (
            types & self.requested != 0
            and (not lowest_count or (types & state.market.spot).bit_count() >= lowest_count)
            and (not self.template.least or self.template.diverse(state, types))
        )

    def spare(self) -> tuple[int, int]:
        """Upper bounds on the node's free CPU and memory."""
        ceiling = self._ceilings()
        return ceiling[0] - self.amounts[0], ceiling[1] - self.amounts[1]

    def spare_amounts(self) -> list[int]:
        """Upper bounds on the free amount of each resource, for pods that may also go to other nodes."""
        ceilings: Iterable[int] = self._ceilings()
        if self.spot_floor:
            flexible = self.template.table.ceilings(self.types & self.state.market.spot, self.spot_floor)
            ceilings = map(min, ceilings, flexible)
        return [ceiling - used for ceiling, used in zip(ceilings, self.amounts, strict=True)]

    def _ceilings(self) -> tuple[int, ...]:
        if self._ceiling is None:
            self._ceiling = self.template.table.ceilings(self.types & self.requested)
        return self._ceiling

    def _most(self, pod_class: PodClass) -> int:
        """An upper bound on how many pods fit, from the largest amount of each resource by itself."""
        limit = len(pod_class.pods)
        for ceiling, used, amount in zip(self._ceilings(), self.amounts, pod_class.amounts, strict=True):
            if amount > 0:
                limit = min(limit, (ceiling - used) // amount)
        return limit

    def _largest(self, state: State, pod_class: PodClass, limit: int) -> tuple[int, int]:
        """The largest number of pods, up to ``limit``, that the state admits, and the types that then fit."""
        floor = self._floor(pod_class, state) if self.empty or pod_class.near else self.spot_floor
        permitted = state.types & self.permitted
        ports = [*self.ports, *pod_class.ports]
        if ports:
            permitted &= ~self.template.blocked(state, ports)
        base, step = self.amounts, pod_class.amounts

        def types_with(count: int) -> int:
            amounts = [a + count * b for a, b in zip(base, step, strict=True)]
            types = self.template.fitting(state, amounts) & permitted
            return types if self.admits(state, types, floor) else 0

        types = types_with(limit)
        if types:
            return limit, types
        low, high, best = 0, limit, 0
        while high - low > 1:
            middle = (low + high) // 2
            types = types_with(middle)
            if types:
                low, best = middle, types
            else:
                high = middle
        return low, best

    def _floor(self, pod_class: PodClass, state: State) -> int:
        """How many spot types the node must keep: those that its first pod alone leaves, up to `SPOT_FLEXIBILITY`.

        Pods that must share a node have no other node to go to, so for them a node may become less flexible.
        """
        if pod_class.near:
            return 0
        spot = state.market.spot & state.types
        if spot.bit_count() < SPOT_FLEXIBILITY:  # users who name a few types want exactly these
            return 0
        spot &= self.permitted
        return min(SPOT_FLEXIBILITY, (self.template.fitting(state, pod_class.amounts) & spot).bit_count())


def fill(node: Bin, load: Sequence[tuple[PodClass, int]]) -> None:
    """Put as much of the load on the node as fits. Largest CPU comes first, so pods that are too large are skipped."""
    position, end = 0, len(load)
    while position < end:
        spare_cpu, spare_memory = node.spare()
        position = bisect_left(load, -spare_cpu, position, key=lambda pair: -pair[0].amounts[0])
        while position < end:
            pod_class, count = load[position]
            position += 1
            if pod_class.amounts[1] <= spare_memory and node.add(pod_class, count):
                break


def top_up(node: Bin, load: Load) -> Load:
    """Use a node's free room without making it more expensive. Return the rest of the load."""
    template = node.template
    cheapest = template.price(node.state, node.types)
    best = node.state.market.best
    number = len(node.load)
    node.requested = sum(1 << n for n in template.by_price(node.state, node.types) if best[n][0] <= cheapest)
    node.restrict(node.types)
    fill(node, load)
    node.requested = template.table.every
    node.restrict(node.types)
    return without(load, node.load[number:])


def without(load: Load, taken_load: Load) -> Load:
    """The load without the pods taken."""
    used: dict[int, int] = {}
    for pod_class, count in taken_load:
        used[id(pod_class)] = used.get(id(pod_class), 0) + count
    remaining = [(pod_class, count - used.get(id(pod_class), 0)) for pod_class, count in load]
    return [(pod_class, count) for pod_class, count in remaining if count]
