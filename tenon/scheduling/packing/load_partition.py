"""Cuts a load into portions, each of which gets its own nodes.

Pods that need different nodes (another zone, another architecture) are separate. They may still share nodes with pods
that run anywhere, and pods that request little memory may cost less apart from pods that request much. So there are
several ways to cut a load, and the engine compares the resulting packings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from tenon.scheduling.offerings.template import State, Template
from tenon.scheduling.offerings.type_candidates import Floats, Numbers, TypeCandidates, nodes_needed
from tenon.scheduling.packing.bins import Load
from tenon.scheduling.pods.blast_radius import WorkloadKey
from tenon.scheduling.pods.pod_classes import PodClass

CUTS = 32
"""How many places are tried for cutting a portion in two."""
WORTHWHILE = 0.002
"""The share of the price that a cut must save."""
MAX_JOINED = 12
"""Portions are joined only if there are at most this many."""


@dataclass(frozen=True, slots=True)
class LoadPart:
    """A part of a load as arrays: its classes, the requests of one pod of each, and the number of pods."""

    menu: TypeCandidates
    classes: list[PodClass]
    amounts: Floats
    counts: Numbers
    dealt: dict[tuple[float, ...], Numbers] = field(default_factory=dict)
    """The pods of each class (columns) on nodes (rows) that were chosen before, by how `balance` chose them."""

    @property
    def total(self) -> Floats:
        """The requests of all pods together."""
        total: Floats = self.counts @ self.amounts
        return total

    def some(self, counts: Numbers) -> LoadPart:
        """The portion with these numbers of pods per class."""
        nonzero = np.flatnonzero(counts)
        return LoadPart(self.menu, [self.classes[number] for number in nonzero], self.amounts[nonzero], counts[nonzero])

    def load(self) -> Load:
        """The classes with their counts."""
        return list(zip(self.classes, self.counts.tolist(), strict=True))

    def least_nodes(self, template: Template) -> int:
        """The fewest nodes that the rules about pods on one node allow."""
        group_counts: dict[tuple[int, int], int] = {}
        pods_by_workload: Counter[WorkloadKey] = Counter()
        lower_bound = 1
        for pod_class, count in self.load():
            workload = template.shares.workload(pod_class)
            pods_by_workload[workload] += count
            lower_bound = max(
                lower_bound,
                count if pod_class.ports else -(-pods_by_workload[workload] // template.shares.most(pod_class)),
            )
            for group, limit in pod_class.host.at_most if pod_class.host is not None else ():
                group_counts[group, limit] = group_counts.get((group, limit), 0) + count
        return max(lower_bound, *(-(-count // limit) for (_, limit), count in group_counts.items() if limit > 0), 1)

    @property
    def is_scattered(self) -> bool:
        """Whether some pods keep each other off their nodes, so that they need many nodes of whatever size."""
        return any(
            pod_class.ports or (pod_class.host is not None and pod_class.host.at_most) for pod_class in self.classes
        )


def partitions(template: Template, load: Load) -> Iterator[list[LoadPart]]:
    """Yield several ways to cut a load. Pods with required affinity to pods on the same node are in none of them."""
    load_by_state: dict[int, tuple[State, Load]] = {}
    for pod_class, count in load:
        if not pod_class.near:
            for state in template.successors(template.start, pod_class)[:1]:
                load_by_state.setdefault(id(state), (state, []))[1].append((pod_class, count))
    apart = [_portion(template, state, state_load) for state, state_load in load_by_state.values()]
    apart = [portion for portion in apart if len(portion.menu.numbers)]
    spread = _spread(template, apart) if len(apart) > 1 else []
    if any(portion.is_scattered for portion in apart):
        yield spread or apart
        return
    joined_portions = _joined(template, apart) if 1 < len(apart) <= MAX_JOINED else apart
    yield joined_portions
    cut = [state_load for portion in joined_portions for state_load in _cut(portion)]
    if len(cut) > len(joined_portions):
        yield cut
    if spread:
        yield spread


def _portion(template: Template, state: State, load: Load) -> LoadPart:
    menu = TypeCandidates.of(template, state, template.limits.allowed(template.start.types))
    amounts = np.array([pod_class.amounts for pod_class, _ in load], dtype=np.float64)
    counts = np.array([count for _, count in load], dtype=np.int64)
    return LoadPart(menu, [pod_class for pod_class, _ in load], amounts, counts)


def _cut(portion: LoadPart) -> list[LoadPart]:
    """Cut the portion in two at the cheapest place, priced with fractional nodes; unchanged if no cut saves enough.

    Classes are ordered by their ratio of memory to CPU. A cut may divide one class.
    """
    menu = portion.menu
    order = np.argsort(portion.amounts[:, 1] / np.maximum(portion.amounts[:, 0], 1.0), kind="stable")
    amounts, counts = portion.amounts[order], portion.counts[order]
    weight = (amounts / np.maximum(portion.total, 1.0)).sum(axis=1)
    until = np.cumsum(weight * counts)
    places = np.linspace(0.0, until[-1], CUTS + 1)[1:, None]
    # how many pods of each class (columns) are before each place (rows)
    share = (places - (until - weight * counts)) / np.maximum(weight, 1e-300)
    before = np.clip(share, 0, counts).round().astype(np.int64)
    before[-1] = counts  # not cut
    totals = np.concatenate((before @ amounts, (counts - before) @ amounts))
    price = (nodes_needed(menu.room, totals) * menu.price[:, None]).min(axis=0)
    price = price[:CUTS] + price[CUTS:]
    best = int(price.argmin())
    if price[best] > price[-1] * (1 - WORTHWHILE):
        return [portion]
    count_rows = np.zeros((2, len(order)), dtype=np.int64)
    count_rows[:, order] = before[best], counts - before[best]
    return [portion.some(row) for row in count_rows if row.any()]


def _spread(template: Template, apart: list[LoadPart]) -> list[LoadPart]:
    """Distribute the pods that may go anywhere over the other portions, in proportion to size."""
    free = next((portion for portion in apart if portion.menu.state is template.start), None)
    bound = [portion for portion in apart if portion is not free]
    if free is None:
        return []
    total = np.maximum(sum((portion.total for portion in bound), np.zeros(len(template.table.names))), 1.0)
    until = np.cumsum([max((portion.total / total)[:2].max(), 1e-9) for portion in bound])
    ends = np.round(free.counts[None] * (until / until[-1])[:, None]).astype(np.int64)
    count_rows = np.diff(ends, axis=0, prepend=0)
    return [
        _portion(template, portion.menu.state, _ordered(portion.load() + free.some(counts).load()))
        for portion, counts in zip(bound, count_rows, strict=True)
    ]


def _joined(template: Template, apart: list[LoadPart]) -> list[LoadPart]:
    """Join portions, two at a time, as long as that makes them cheaper."""
    portions = list(apart)
    joins: dict[tuple[int, int], tuple[float, LoadPart | None]] = {}
    while len(portions) > 1:
        for first, second in combinations(portions, 2):
            if (id(first), id(second)) not in joins:
                joins[id(first), id(second)] = _join(template, first, second)
        pairs = [(*joins[id(first), id(second)], first, second) for first, second in combinations(portions, 2)]
        saved, joined_portion, first, second = max(pairs, key=lambda pair: pair[0])
        if joined_portion is None or saved <= 0:
            break
        portions = [portion for portion in portions if portion is not first and portion is not second] + [
            joined_portion
        ]
    return portions


def _join(template: Template, first: LoadPart, second: LoadPart) -> tuple[float, LoadPart | None]:
    """Return what joining two portions would save, and the joined portion; None if no node takes both."""
    state = joined_state(template, first.menu.state, second.load())
    if state is None:
        return 0.0, None
    joined_portion = _portion(template, state, _ordered(first.load() + second.load()))
    return sum(_rough_price(template, portion) for portion in (first, second)) - _rough_price(
        template, joined_portion
    ), joined_portion


def _rough_price(template: Template, portion: LoadPart) -> float:
    """The price of whole nodes of the best single type."""
    needed = np.ceil(nodes_needed(portion.menu.room, portion.total[None])[:, 0])
    needed = np.maximum(needed, portion.least_nodes(template))
    return float((needed * portion.menu.price).min(initial=np.inf))


def joined_state(template: Template, state: State, load: Load) -> State | None:
    """The state of a node in ``state`` after it takes pods of each class; None if one of the classes cannot join."""
    for pod_class, _ in load:
        states = template.successors(state, pod_class)
        if not states:
            return None
        state = states[0]
    return state


def _ordered(load: Load) -> Load:
    return sorted(load, key=lambda pair: (-pair[0].amounts[0], -pair[0].amounts[1]))
