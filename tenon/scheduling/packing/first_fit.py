"""First-fit: puts each class of pods on the first nodes that take it, and opens new nodes for the rest.

It is the baseline that every other packing must beat, and it completes packings that stop half-way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tenon.scheduling.offerings.limits import Limits
from tenon.scheduling.offerings.template import Template
from tenon.scheduling.packing.bin_index import BinIndex
from tenon.scheduling.packing.bins import Bin, Load
from tenon.scheduling.pods.pod_classes import PodClass


@dataclass(frozen=True, slots=True)
class Packing:
    """The nodes, the pods that were not placed, and the limits that remain."""

    bins: list[Bin]
    unplaced: Load
    limits: Limits

    def cost(self) -> tuple[int, float]:
        """Pods left over, then the price with the charge per node. Burstable types count at their baseline."""
        steady = (b.template.sizing_price(b.state, b.types, b.amounts[0]) + b.template.node_charge for b in self.bins)
        return sum(count for _, count in self.unplaced), round(sum(steady), 9)

    def price(self) -> tuple[int, float]:
        """Pods left over, then the price without charges."""
        plain = sum(b.template.price(b.state, b.types) for b in self.bins)
        return sum(count for _, count in self.unplaced), round(plain, 9)


def first_fit(
    template: Template, load: Load, sizes: int, begun: Sequence[Bin] = (), limits: Limits | None = None
) -> Packing:
    """Put each class on the first nodes that take it. New nodes have types in ``sizes`` if the pod fits one of those.

    ``begun`` are the nodes to start with. ``limits`` is what the pool may still launch and already counts those nodes.
    """
    limits = limits or template.limits.copy(template.pool)
    bins = list(begun)
    index = BinIndex(template, bins)
    last: Bin | None = None
    unplaced: Load = []
    for pod_class, total in load:
        count = total
        if template.expired():
            unplaced.append((pod_class, count))
            continue
        for position in index.candidates(pod_class):
            if added := bins[position].add(pod_class, count):
                count -= added
                index.update(position, bins[position])
                if not count:
                    break
        while count:
            opened = _open(template, pod_class, count, limits, last, sizes)
            if last is not None and not limits.unlimited:
                index.update(len(bins) - 1, last)  # _open restricted its types
            if opened is None:
                unplaced.append((pod_class, count))
                break
            last = opened
            bins.append(opened)
            index.append(opened)
            count -= opened.load[0][1]
            if limits.unlimited and (full := count // opened.load[0][1]):
                for _ in range(full):
                    bins.append(opened.copy())
                    index.append(bins[-1])
                count -= full * opened.load[0][1]
    if last is not None:
        close(last, limits)
    return Packing(bins, unplaced, limits)


def _open(
    template: Template, pod_class: PodClass, count: int, limits: Limits, last: Bin | None, sizes: int
) -> Bin | None:
    """Open a node with at least one pod of the class. The previously opened node is closed: it cannot grow any more."""
    if last is not None:
        close(last, limits)
    permitted = limits.allowed(template.start.types)
    for size_set in (sizes, template.table.every) if sizes != template.table.every else (sizes,):
        node = Bin(template, permitted, size_set)
        if permitted and node.add(pod_class, count):
            return node
    if last is not None:
        _reopen(last, limits)
    return None


def close(node: Bin, limits: Limits) -> None:
    """Count a node against the limits with its cheapest type, and drop its larger types."""
    if limits.unlimited:
        return
    peak = limits.peak(1 << node.cheapest())
    node.give_way(limits.not_above(node.types, peak))
    limits.take(limits.peak(node.types))


def _reopen(node: Bin, limits: Limits) -> None:
    """Undo the counting of `close`. The node keeps its types."""
    if not limits.unlimited:
        limits.take({name: -amount for name, amount in limits.peak(node.types).items()}, nodes=-1)
