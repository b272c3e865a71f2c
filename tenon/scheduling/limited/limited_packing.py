"""Packs the new nodes of all NodePools again, together, where limits may bind, with the pods that have no place yet.

The result is kept if it places more pods, or the same ones at a lower cost. Pods with rules about others stay in their
NodePool and domain. NodePools of higher weight keep as many pods as before, so that none loses pods to a cheaper one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf

import numpy as np

from tenon.kube.pod import Pod
from tenon.scheduling.column_generation.column_packing import MAX_CLASSES, MAX_NODES
from tenon.scheduling.column_generation.columns import NEARLY, Columns, NodePacking, ProgramFailedError
from tenon.scheduling.column_generation.node_options import NodeOptions, Source
from tenon.scheduling.limited.limited_columns import LimitedMaster, Rations
from tenon.scheduling.limited.limited_search import Level, Rank, best_nodes
from tenon.scheduling.limited.place_bound import least_unplaced
from tenon.scheduling.offerings.limits import counts_nodes
from tenon.scheduling.offerings.type_candidates import Numbers
from tenon.scheduling.packing.bins import Bin, Load
from tenon.scheduling.packing.fleet import Fleet
from tenon.scheduling.packing.load_partition import joined_state
from tenon.scheduling.pods.pod_classes import PodClass, queue_order
from tenon.scheduling.reservations import is_paid_for

ROUNDS = 10
"""How often packings are added for the whole load."""
CLOSE = 1.005
"""Nodes whose cost is at most this part of the linear program's are good enough."""
FAIR = 1.03
"""Nodes whose cost is at most this part are not worth many tries."""
STEP = 4.0
"""How much more a pod without a place costs than one of the next lower priority."""
MAX_LEVELS = 4
"""Priorities below the fourth highest of the batch count alike."""


def level(pod: Pod) -> Level:
    """The level of a pod."""
    return bool(pod.buffer), -pod.priority


def repack_within_limits(
    fleets: Sequence[Fleet],
    unplaced: Load,
    free_classes: Collection[int],
    accepts: Callable[[], bool],
    columns: Columns,
) -> Load | None:
    """Replace the nodes of the fleets if there are better ones. Return the pods that have no place then; None if not.

    Args:
        fleets: all NodePools with their nodes.
        unplaced: the pods without a place.
        free_classes: the ids of classes without rules about other pods.
        accepts: whether the fleets may stay as they then are.
        columns: hears how many pods have no place in any plan.

    Raises:
        ProgramFailedError: the solver failed. The fleets are as before.
    """
    bought = [fleet for fleet in fleets if not is_paid_for(fleet.template.pool)]
    repacking = _Repacking(bought, unplaced, free_classes)
    columns.least_unplaced = None
    if len(bought) == len(fleets):
        try:
            columns.least_unplaced = repacking.least_unplaced()
        except ProgramFailedError as error:  # the nodes are as good without it
            columns.failures.append(str(error))
    nodes = repacking.better(columns.least_unplaced or 0) if repacking.usable else None
    if nodes is None:
        return None
    before = [(fleet, fleet.bins, fleet.limits, dict(fleet.limits.remaining)) for fleet in fleets]
    for fleet, old_bins, new_bins in zip(bought, repacking.free, nodes, strict=True):
        limits = fleet.limits.copy(fleet.template.pool)
        for node in old_bins:
            limits.take({name: -amount for name, amount in limits.peak(node.types).items()}, nodes=-1)
        for node in new_bins:
            limits.take(limits.peak(node.types))
        fleet.replace([*(node for node in fleet.bins if node not in old_bins), *new_bins], limits)
    if accepts():
        return repacking.left_load(nodes)
    for fleet, bins, limits, _ in before:
        fleet.replace(bins, limits)
    for fleet, _, _, remaining in before:
        fleet.limits.remaining = remaining
    return None


@dataclass(frozen=True, slots=True)
class _Kind:
    """Pods of a class. Those with rules about other pods stay in the fleet where they are, by its number."""

    pod_class: PodClass
    fleet: int | None


class _Repacking:
    """The nodes and pods that are packed again."""

    def __init__(self, fleets: Sequence[Fleet], unplaced: Load, free_classes: Collection[int]) -> None:
        self._fleets = fleets
        self._unplaced = unplaced
        self.free = [[node for node in fleet.bins if not any(c.near for c, _ in node.load)] for fleet in fleets]
        """The nodes of each fleet that are packed again."""
        counts: Counter[_Kind] = Counter()
        for number, bins in enumerate(self.free):
            for node in bins:
                for pod_class, count in node.load:
                    counts[_Kind(pod_class, None if id(pod_class) in free_classes else number)] += count
        waiting: Counter[_Kind] = Counter()
        for pod_class, count in unplaced:
            if id(pod_class) in free_classes:
                waiting[_Kind(pod_class, None)] += count
        counts.update(waiting)
        self._kinds = sorted(
            counts, key=lambda kind: (queue_order(kind.pod_class), str(kind.pod_class.terms), kind.fleet or 0)
        )
        self._numbers = {kind: number for number, kind in enumerate(self._kinds)}
        self._counts: Numbers = np.array([counts[kind] for kind in self._kinds], dtype=np.int64)
        self._unplaced_counts: Numbers = np.array([waiting[kind] for kind in self._kinds], dtype=np.int64)
        """The pods without a place."""
        self.least_left: int | None = None
        """How many pods have no place at least, by the linear program; None if it was not solved."""
        self._pod_levels = [[level(pod) for pod in kind.pod_class.origin.pods] for kind in self._kinds]
        self._every_level = sorted({value for pod_levels in self._pod_levels for value in pod_levels})
        self._shared, self._amounts = _limits(fleets, self.free)
        self.usable = (
            0 < sum(map(len, self.free)) <= MAX_NODES
            and len(self._kinds) <= MAX_CLASSES
            and not any(fleet.template.expired() for fleet in fleets)
        )

    def better(self, bound: int) -> list[list[Bin]] | None:
        """Return better nodes for each fleet; None if there are none. ``bound``: pods without a place in any plan."""
        sources = [self._source(number) for number in range(len(self._fleets))]
        load = [(kind.pod_class, int(count)) for kind, count in zip(self._kinds, self._counts, strict=True)]
        options = NodeOptions(sources, load, self._amounts)
        if not options.usable:
            return None
        packings = [self._packing(number, node) for number, bins in enumerate(self.free) for node in bins]
        cost = sum(packing.cost for packing in packings)
        rations = self._rations(cost + float(options.price.max()))
        master = LimitedMaster(options, self._counts, rations)
        master.add(packings)
        expired = self._fleets[0].template.expired
        master.converge(ROUNDS, expired)
        master.generate(ROUNDS, expired)
        self.least_left = least = max(bound, ceil(float(master.left().sum()) - NEARLY))
        nodes = None
        if least < self._unplaced_counts.sum():
            master.change(replace(rations, forced_in_all=least))
            nodes = self._best(master, packings, sources)
        if nodes is None:
            master.change(replace(rations, forced=self._unplaced_counts, optional=self._unplaced_counts))
            nodes = self._best(master, packings, sources)
        return nodes

    def _best(
        self, master: LimitedMaster, present: Sequence[NodePacking], sources: Sequence[Source]
    ) -> list[list[Bin]] | None:
        """Return the best nodes that were found; None if none are better than the ``present`` ones."""
        expired = self._fleets[0].template.expired
        solution = master.generate(ROUNDS, expired)
        least = master.node_cost(solution)

        def rank(packings: Sequence[NodePacking]) -> Rank:
            unplaced = self._counts - np.sum([packing.pods for packing in packings], axis=0, dtype=np.int64)
            cost = round(sum(packing.cost for packing in packings), 9)
            return Rank(int(unplaced.sum()), self._levels(unplaced), cost)

        def within(part: float) -> Callable[[Rank], bool]:
            """Whether as many pods have a place as can have one, at this part of the program's cost."""
            return lambda own: (
                self.least_left is not None and own.unplaced <= self.least_left and own.cost <= part * least
            )

        def is_possible(sized: Sequence[NodePacking]) -> bool:
            built = self._built(sized, sources)
            return built is not None and self._is_permitted(built)

        def is_close(own: Rank) -> bool:
            """Whether a search is not worth its time: it may still leave pods of a lower priority without a place."""
            return within(FAIR)(own) and not any(count for _, count in own.levels[:-1])

        fair = FAIR if self._unplaced_counts.any() else inf  # more tries are for pods without a place
        packings = best_nodes(
            master,
            solution,
            present,
            rank,
            is_possible,
            is_close,
            within(fair),
            within(CLOSE),
            expired,
        )
        nodes = self._built(packings, sources)
        is_better = nodes is not None and self._is_permitted(nodes) and self._rank(nodes) < self._rank(self.free)
        return nodes if is_better else None

    def least_unplaced(self) -> int | None:
        """How many pods have no place in any plan; None if unknown, because some pods may not go anywhere."""
        if (
            not self._unplaced
            or len(self._kinds) > MAX_CLASSES
            or any(fleet.template.expired() or fleet.template.pods_may_avoid_daemons for fleet in self._fleets)
            or any(kind.fleet is not None for kind in self._kinds)
            or any(_Kind(pod_class, None) not in self._numbers for pod_class, _ in self._unplaced)
            or any(len(free) < len(fleet.bins) for free, fleet in zip(self.free, self._fleets, strict=True))
        ):
            return None
        load = [(kind.pod_class, int(count)) for kind, count in zip(self._kinds, self._counts, strict=True)]
        reached = sum(count for _, count in self._unplaced)
        return least_unplaced(self._fleets, load, self._shared, self._amounts, reached)

    def left_load(self, nodes: Sequence[Sequence[Bin]]) -> Load:
        """The pods without a place if the fleets have these nodes."""
        unplaced = self._counts - self._placed(nodes).sum(axis=0)
        by_class = {id(kind.pod_class): int(count) for kind, count in zip(self._kinds, unplaced, strict=True) if count}
        others = [(c, count) for c, count in self._unplaced if _Kind(c, None) not in self._numbers]
        free = [
            (kind.pod_class, by_class[id(kind.pod_class)]) for kind in self._kinds if id(kind.pod_class) in by_class
        ]
        return sorted([*others, *free], key=lambda pair: queue_order(pair[0]))

    def _source(self, number: int) -> Source:
        fleet = self._fleets[number]
        limits = fleet.limits.copy(fleet.template.pool)
        limits.remaining = {name: self._amounts[row] for name, row in self._shared[number].items()}
        serves = np.array(
            [kind.fleet == number or (kind.fleet is None and fleet.suits(kind.pod_class)) for kind in self._kinds]
        )
        return Source(fleet.template, limits, self._shared[number], serves)

    def _packing(self, number: int, node: Bin) -> NodePacking:
        """A node as it is."""
        template, usage = self._fleets[number].template, [0.0] * len(self._amounts)
        for name, amount in self._used(number, node).items():
            row = self._shared[number][name]
            usage[row] = amount / max(1, self._amounts[row])
        cost = template.sizing_price(node.state, node.types, node.amounts[0]) + template.node_charge
        pods = self._placed([[node] if number == fleet else [] for fleet in range(len(self._fleets))])[number]
        return NodePacking(node.cheapest(), pods, cost, number, tuple(usage))

    def _used(self, number: int, node: Bin) -> dict[str, int]:
        """What a node uses of its fleet's limits, whichever of its types it becomes."""
        return {
            name: 1 if counts_nodes(name) else self._fleets[number].template.table.largest_capacity(name, node.types)
            for name in self._shared[number]
        }

    def _rations(self, base: float) -> Rations:
        """``base``: what a pod of the lowest priority costs without a place."""
        levels = sorted({level(kind.pod_class.pods[0]) for kind in self._kinds})
        rank = {value: min(number, MAX_LEVELS - 1) for number, value in enumerate(levels)}
        lowest = max(rank.values())
        penalty = [base * STEP ** (lowest - rank[level(kind.pod_class.pods[0])]) for kind in self._kinds]
        is_free = np.array([kind.fleet is None for kind in self._kinds])
        preferred = self._preferred()
        return Rations(
            limits=np.ones(len(self._amounts)),
            penalty=np.array(penalty),
            forced=np.zeros_like(self._counts),
            optional=np.where(is_free & self._unplaced_counts.any(), self._counts, 0),
            forced_in_all=0,
            preferred=preferred,
            least=preferred @ self._placed(self.free).sum(axis=1),
        )

    def _preferred(self) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
        weights = np.array([fleet.template.pool.weight for fleet in self._fleets])
        steps = sorted(set(weights.tolist()), reverse=True)[:-1]
        return np.array([weights >= weight for weight in steps], dtype=bool).reshape(len(steps), len(weights))

    def _placed(self, nodes: Sequence[Sequence[Bin]]) -> Numbers:
        """How many pods of each kind (columns) the nodes of each fleet (rows) hold."""
        placed = np.zeros((len(nodes), len(self._kinds)), dtype=np.int64)
        for number, bins in enumerate(nodes):
            for node in bins:
                for pod_class, count in node.load:
                    kind = _Kind(pod_class, number)
                    placed[number, self._numbers.get(kind, self._numbers.get(_Kind(pod_class, None), 0))] += count
        return placed

    def _levels(self, unplaced: Numbers) -> list[tuple[Level, int]]:
        """How many pods of each level have no place, as far as any has none. Pods of a class have places in order."""
        counts: Counter[Level] = Counter()
        for pod_levels, count in zip(self._pod_levels, unplaced.tolist(), strict=True):
            counts.update(pod_levels[len(pod_levels) - count :])
        return [(value, counts[value]) for value in self._every_level]

    def _built(self, packings: Sequence[NodePacking], sources: Sequence[Source]) -> list[list[Bin]] | None:
        """Return the nodes of the packings, by fleet; None if a node cannot have all of its pods."""
        present: dict[object, list[Bin]] = {}
        for number, bins in enumerate(self.free):
            for node in bins:
                present.setdefault(self._packing(number, node).key, []).append(node)
        nodes: list[list[Bin]] = [[] for _ in self._fleets]
        for packing in packings:
            same = present.get(packing.key)
            built = same.pop() if same else self._build(packing, sources[packing.source])
            if built is None:
                return None
            nodes[packing.source].append(built)
        return nodes

    def _build(self, packing: NodePacking, source: Source) -> Bin | None:
        template, limits = source.template, source.limits
        pods = [(self._kinds[number].pod_class, int(packing.pods[number])) for number in np.flatnonzero(packing.pods)]
        node = Bin(template, limits.allowed(template.start.types), 1 << packing.type)
        state = joined_state(template, template.start, pods)
        if state is None or not node.stack(pods, state):
            for pod_class, count in pods:
                if node.add(pod_class, count) < count:
                    return None
        if not limits.unlimited:
            cheap = limits.not_above(node.types, limits.peak(1 << packing.type))
            if not node.give_way(cheap):
                return None
        return node

    def _rank(self, nodes: Sequence[Sequence[Bin]]) -> Rank:
        unplaced = self._counts - self._placed(nodes).sum(axis=0)
        return Rank(int(unplaced.sum()), self._levels(unplaced), _cost(nodes)[0])

    def _is_permitted(self, nodes: Sequence[Sequence[Bin]]) -> bool:
        """Whether the nodes respect what they must. Other pods may have no place only if they are fewer."""
        used = Counter[int]()
        for number, bins in enumerate(nodes):
            for node in bins:
                for name, amount in self._used(number, node).items():
                    used[self._shared[number][name]] += amount
        if any(amount > self._amounts[row] for row, amount in used.items()):
            return False
        placed, before, preferred = self._placed(nodes), self._placed(self.free), self._preferred()
        unplaced = self._counts - placed.sum(axis=0)
        if (unplaced < 0).any() or (preferred @ placed.sum(axis=1) < preferred @ before.sum(axis=1)).any():
            return False
        if unplaced.sum() < self._unplaced_counts.sum():
            return self._levels(unplaced) < self._levels(self._unplaced_counts)
        return bool((unplaced == self._unplaced_counts).all()) and _cost(nodes)[1] <= _cost(self.free)[1]


def _cost(nodes: Sequence[Sequence[Bin]]) -> tuple[float, float]:
    """The cost with charges and burstable types at their baseline, and the price, in dollars an hour."""
    every = [node for bins in nodes for node in bins]
    cost = sum(n.template.sizing_price(n.state, n.types, n.amounts[0]) + n.template.node_charge for n in every)
    return round(cost, 9), round(sum(n.template.price(n.state, n.types) for n in every), 9)


def _limits(fleets: Sequence[Fleet], free: Sequence[Sequence[Bin]]) -> tuple[list[dict[str, int]], list[int]]:
    """Return the limits of each fleet by name, each as a number, and what is left of each without the free nodes."""
    positions = {id(fleet): number for number, fleet in enumerate(fleets)}
    numbers: dict[tuple[str, int], int] = {}
    amounts: list[int] = []
    shared: list[dict[str, int]] = []
    for position, fleet in enumerate(fleets):
        rows: dict[str, int] = {}
        for name, remaining in fleet.limits.remaining.items():
            together = {position} | {
                positions[id(other)] for other, limit in fleet.sharing if limit == name and id(other) in positions
            }
            key = name, min(together)
            if key not in numbers:
                numbers[key] = len(amounts)
                freed = sum(
                    1 if counts_nodes(name) else fleets[number].template.table.largest_capacity(name, node.types)
                    for number in sorted(together)
                    for node in free[number]
                )
                amounts.append(remaining + freed)
            rows[name] = numbers[key]
        shared.append(rows)
    return shared, amounts
