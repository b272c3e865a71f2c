"""Divides pods that spread over zones among them again, together with the nodes that are bought for them.

The domain of each pod is settled before nodes are chosen, as evenly as possible. Where each zone needs few nodes, the
last node of each is often half empty, and with other shares, within `maxSkew`, all of them would be full. So for a plan
far above its linear program, the program is extended: it also chooses how many of the pods each domain has. A few nodes
at a time are taken apart, and bought again by that program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

import numpy as np

from tenon.scheduling.column_generation.column_packing import build, merged_load, packed
from tenon.scheduling.column_generation.columns import ROUNDS, Master, NodePacking, Priced, Prices, buy, trimmed
from tenon.scheduling.column_generation.node_options import NodeOptions, Source
from tenon.scheduling.column_generation.ruin_and_recreate import CLOSE, NEARLY, PackedNode, price_of
from tenon.scheduling.domains.constrained_placement import Placer
from tenon.scheduling.first_fit_baseline import cost_of
from tenon.scheduling.offerings.type_candidates import Floats, Numbers
from tenon.scheduling.packing.fleet import Fleet

FAR = 1.05
"""Nodes that cost more than this part of their linear program are far above it."""
FEW = 16
"""The most nodes: with more, the last node of each domain is a small part of the cost."""
MAX_CLASSES = 24
"""The most kinds of pods, each in each of its domains."""
TRIES = 10
"""How often nodes are taken apart."""
SIZES = (6, 4)
"""How many nodes are taken apart at once, in turn, drawn at random: a pod changes its domain only if nodes of both are
among them.
"""
LATER_ROUNDS = 2
"""How often packings are added for the pods of these nodes."""


@dataclass(frozen=True, slots=True)
class Shares:
    """How many pods of each class some nodes have to hold. Each domain of the same pods is a class of its own."""

    families: Sequence[Numbers]
    """The classes of the same pods in several domains."""
    in_all: Numbers
    """How many pods each family has."""
    least: Numbers
    """Of each class. Those of no family have as many pods as this."""
    most: Numbers
    """Of each class."""

    def without(self, pods: Numbers) -> Shares:
        """What remains for other nodes than those that hold so many pods of each class."""
        in_all = self.in_all - self._sums(pods)
        return replace(self, in_all=in_all, least=np.maximum(self.least - pods, 0), most=self.most - pods)

    def allow(self, pods: Numbers) -> bool:
        """Whether a node may hold so many pods of each class."""
        rest = self.without(pods)
        return bool((rest.most >= 0).all() and (rest._sums(rest.least) <= rest.in_all).all())

    def possible(self) -> Numbers:
        """The most pods of each class, by what the other classes of its family have at least."""
        most = self.most.copy()
        for family, in_all in zip(self.families, self.in_all.tolist(), strict=True):
            others = self.least[family].sum() - self.least[family]
            most[family] = np.clip(most[family], 0, np.maximum(in_all - others, 0))
        return most

    def _sums(self, pods: Numbers) -> Numbers:
        return np.array([pods[family].sum() for family in self.families], dtype=np.int64)


class SharesMaster(Master):
    """The linear program in which the pods of a family may be in any of its domains."""

    def __init__(self, options: NodeOptions, shares: Shares) -> None:
        """Start without packings."""
        self._shares = shares
        self._free = np.zeros(len(shares.least), dtype=bool)
        for family in shares.families:
            self._free[family] = True
        super().__init__(options, shares.possible())
        self.add_rows(np.zeros(len(shares.families)), np.full(len(shares.families), np.inf))
        self._cover(shares)

    def admits(self, pods: Numbers) -> bool:
        """Whether so many pods of each class may be bought."""
        return self._shares.allow(pods)

    def _cover_fewer(self, pods: Numbers) -> None:
        self._cover(self._shares.without(pods))
        singles = np.diag(np.minimum(self.remaining, 1))
        self.add(trimmed(self.options, singles))  # so that the program has a solution

    def _cover(self, shares: Shares) -> None:
        self._shares = shares
        self.remaining = shares.possible()
        infinite = np.full(len(shares.families), np.inf)
        most = np.where(self._free, np.maximum(shares.most, shares.least), np.inf)
        self.bound_rows(np.concatenate([shares.least, shares.in_all]).astype(float), np.concatenate([most, infinite]))

    def _drop_dear(self, priced: Priced) -> None:
        """Keep all: a small node for the last pods of a domain is dear for its size."""

    def _coefficients(self, packings: Sequence[NodePacking], table: Numbers) -> Floats:  # noqa: ARG002 - of the rows
        return np.column_stack([table, *(table[:, family].sum(axis=1) for family in self._shares.families)]).astype(
            float
        )

    def _prices(self, duals: Floats) -> Prices:
        classes = len(self._shares.least)
        worth = duals[:classes].copy()
        for family, dual in zip(self._shares.families, duals[classes:].tolist(), strict=True):
            worth[family] += dual
        return Prices(np.maximum(worth, 0.0), self.options.price)


def share_again(fleet: Fleet, placer: Placer, accepts: Callable[[], bool]) -> bool:
    """Replace the fleet's nodes if others hold the same pods, in other domains, at a lower cost and no higher price.

    Return whether. All pods of the batch must have a place.

    Args:
        fleet: nodes that were packed by columns, in a NodePool without limits that may bind.
        placer: knows how the pods may be divided among domains.
        accepts: whether the fleet may stay as it then is.

    Raises:
        ProgramFailedError: the solver failed. The fleet is as before.
    """
    free = [node for node in fleet.bins if not any(pod_class.near for pod_class, _ in node.load)]
    if not _is_far(fleet) or not fleet.limits.unlimited or not 1 < len(free) <= FEW:
        return False
    load = merged_load(free)
    numbers = {id(pod_class): number for number, (pod_class, _) in enumerate(load)}
    families, changes = [], {}
    for members in placer.spare_changes():
        usable = [member for member in members if fleet.suits(member[0])]
        if any(id(pod_class) in numbers for pod_class, _, _ in usable):
            for pod_class, fewer, more in usable:
                if id(pod_class) not in numbers:
                    numbers[id(pod_class)] = len(load)
                    load.append((pod_class, 0))
                changes[numbers[id(pod_class)]] = fewer, more
            families.append(np.array([numbers[id(pod_class)] for pod_class, _, _ in usable]))
    if not families or len(load) > MAX_CLASSES:
        return False
    options = NodeOptions([Source(fleet.template, fleet.limits)], load)
    if not options.usable:
        return False
    counts = options.counts
    limits = np.array([changes.get(number, (0, 0)) for number in range(len(load))], dtype=np.int64)
    shares = Shares(
        families,
        in_all=np.array([counts[family].sum() for family in families], dtype=np.int64),
        least=np.maximum(counts + limits[:, 0], 0),
        most=counts + limits[:, 1],
    )
    nodes = [packed(node, numbers) for node in free]
    after = _improved(fleet, options, shares, nodes, numbers)
    if after is nodes:
        return False
    before = fleet.bins
    fleet.replace([*(node for node in before if node not in free), *(node.bin for node in after)], fleet.limits)
    if not accepts():
        fleet.replace(before, fleet.limits)
        return False
    return True


def _is_far(fleet: Fleet) -> bool:
    return fleet.program is not None and cost_of([fleet]) > FAR * fleet.program.least


def _improved(
    fleet: Fleet, options: NodeOptions, shares: Shares, nodes: list[PackedNode], numbers: dict[int, int]
) -> list[PackedNode]:
    """Return better nodes for the pods; the same list if none were found."""
    expired = fleet.template.expired
    master = SharesMaster(options, shares)
    master.add([NodePacking(node.bin.cheapest(), node.pods, node.cost) for node in nodes])
    solution = master.converge(ROUNDS, expired)
    present, tried = nodes, set[bytes]()
    draw = Random(len(nodes))  # the same problem must give the same plan
    for number in range(TRIES):
        if expired() or len(present) < 2 or sum(node.cost for node in present) <= CLOSE * solution.cost:
            break
        positions = draw.sample(range(len(present)), min(len(present), SIZES[number % len(SIZES)]))
        parts = [present[position] for position in positions]
        others = [node for position, node in enumerate(present) if position not in positions]
        rest = shares.without(sum((node.pods for node in others), np.zeros_like(options.counts)))
        key = np.concatenate([rest.in_all, rest.least, rest.most]).tobytes()
        if key in tried:
            continue
        tried.add(key)
        part = SharesMaster(options, rest)
        part.add([NodePacking(node.bin.cheapest(), node.pods, node.cost) for node in parts])
        part.add([packing for packing in master.packings if (packing.pods <= part.remaining).all()])
        cost = sum(node.cost for node in parts)
        bought = buy(part, LATER_ROUNDS, expired, cost)
        built = [node for packing in bought or () if (node := build(fleet.template, options, packing, numbers))]
        if bought is None or len(built) < len(bought) or sum(node.cost for node in built) >= cost - NEARLY:
            continue
        if price_of(built) <= price_of(parts):
            present = [*others, *built]
    return present
