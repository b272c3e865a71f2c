"""The new nodes of one NodePool, while pods are placed on them one by one within the pool's limits.

A node counts against the limits with its cheapest type. It grows into a larger type only as far as the limits allow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tenon.kube.requirements import Requirements
from tenon.scheduling.offerings.limits import Limits
from tenon.scheduling.offerings.template import Template
from tenon.scheduling.packing.bin_index import BinIndex
from tenon.scheduling.packing.bins import Bin
from tenon.scheduling.pods.pod_classes import PodClass

Kind = tuple[int, tuple[Requirements, ...]]
"""Pods of a class as it was grouped, by its identity, in the domains that these terms allow."""
Placement = Counter[tuple[int, Kind]]
"""How many pods of each kind the nodes of each fleet hold, by the number of the fleet."""


@dataclass(frozen=True, slots=True)
class Program:
    """What the linear program says of a fleet's nodes, in dollars an hour."""

    least: float
    """The cost of the nodes if their packings could be divided."""
    worth: Mapping[Kind, float]
    """What a pod of each kind costs there."""

    def worth_of(self, kind: Kind) -> float:
        """What a pod costs. Where there were no such pods, it is what one costs in the dearest of their domains."""
        if kind in self.worth:
            return self.worth[kind]
        return max((worth for (origin, _), worth in self.worth.items() if origin == kind[0]), default=0.0)


def kind_of(pod_class: PodClass) -> Kind:
    """Return the kind of the pods."""
    return id(pod_class.origin), pod_class.terms


class Fleet:
    """The template, its nodes so far, and what is left of its limits."""

    def __init__(self, template: Template) -> None:
        """Start without nodes."""
        self.template = template
        self.bins: list[Bin] = []
        self.limits: Limits = template.limits.copy(template.pool)
        self.sharing: list[tuple[Fleet, str]] = []
        """Other fleets that count against one of the same limits, with the limit's name."""
        self.program: Program | None = None
        """None if the nodes were not packed by columns."""
        self._index = BinIndex(template)

    def suits(self, pod_class: PodClass) -> bool:
        """Whether nodes of the pool may take the pods, regardless of room."""
        return pod_class.tolerates(self.template.pool.taints) and bool(
            self.template.successors(self.template.start, pod_class)
        )

    def replace(self, bins: Iterable[Bin], limits: Limits) -> None:
        """Replace the nodes with nodes that were packed elsewhere, and the limits with what these leave."""
        self.bins = list(bins)
        before, self.limits = self.limits.remaining, limits
        self._share(before)
        for node in self.bins:
            node.requested = self.template.table.every
            node.restrict(node.types)
            if self.limits.unlimited:
                self._permit(node, self.template.start.types)
        self._index = BinIndex(self.template, self.bins)

    def candidates(self, pod_class: PodClass, start: int) -> Iterable[int]:
        """Positions, from ``start`` on, of nodes that may take a pod of the class, in ascending order."""
        if self.limits.unlimited:
            return self._index.candidates(pod_class, start)
        # which types such a node may have depends on the limits at that moment, which an index row cannot hold
        return (position for position in range(start, len(self.bins)) if self._may_fit(self.bins[position], pod_class))

    def add(self, position: int, pod_class: PodClass, count: int) -> int:
        """Put as many of the pods as fit on a node of the fleet. Return how many."""
        node = self.bins[position]
        if self.limits.unlimited:
            added = node.add(pod_class, count)
            if added:
                self._index.update(position, node)
            return added
        limits_before = dict(self.limits.remaining)
        peak = self.limits.peak(node.types)
        within = {name: amount + max(0, self.limits.remaining[name]) for name, amount in peak.items()}
        before = node.types
        self._permit(node, self.limits.not_above(self.template.table.every, within))
        added = node.add(pod_class, count)
        if not added:
            node.restrict(before)
            return 0
        self.limits.take({name: -amount for name, amount in peak.items()}, nodes=0)
        self._count(node, nodes=0)
        self._share(limits_before)
        return added

    def open(self, pod_class: PodClass, count: int) -> Bin | None:
        """Open a node with at least one of the pods; None if that is not possible."""
        permitted = self.limits.allowed(self.template.start.types)
        node = Bin(self.template, permitted, self.template.table.every)
        if not permitted or not node.add(pod_class, count):
            return None
        self.bins.append(node)
        self._index.append(node)
        if not self.limits.unlimited:
            limits_before = dict(self.limits.remaining)
            self._count(node, nodes=1)
            self._share(limits_before)
        return node

    def certain(self, node: Bin, terms: Iterable[Requirements]) -> bool:
        """Whether the node meets one of the terms, whatever type and offering it is bought as."""
        return any(self._is_certain(node, term) for term in terms)

    def _is_certain(self, node: Bin, term: Requirements) -> bool:
        narrowed = self.template.narrow(node.state.requirements, term)
        if narrowed is None:
            return False
        now = {
            offer: offer_types & node.types
            for offer, offer_types in self.template.offers_for(node.state.requirements).items()
        }
        then = {offer: offer_types & node.types for offer, offer_types in self.template.offers_for(narrowed).items()}
        if {o: offer_types for o, offer_types in now.items() if offer_types} != {
            o: offer_types for o, offer_types in then.items() if offer_types
        }:
            return False
        own = [key for key in term if key in self.template.requirements]
        before = node.state.requirements
        return all(
            narrowed[key].members == before[key].members and narrowed[key].complement == before[key].complement
            for key in own
            if not self.template.table.decides(key)
        )

    def _share(self, before: Mapping[str, int]) -> None:
        """Apply changes of shared limits to the fleets that share them."""
        for other, name in self.sharing:
            other.limits.remaining[name] -= before[name] - self.limits.remaining[name]

    def _may_fit(self, node: Bin, pod_class: PodClass) -> bool:
        if pod_class.host is not None and not pod_class.host.room(node.hosts):
            return False
        return bool(self.template.successors(node.state, pod_class))

    def _permit(self, node: Bin, permitted: int) -> None:
        """Let the node become any of these types that hold its pods."""
        fitting = self.template.fitting(node.state, node.amounts) & node.state.types & permitted
        node.restrict(permitted)
        node.types = fitting & ~self.template.blocked(node.state, node.ports)

    def _count(self, node: Bin, nodes: int) -> None:
        """Count the node against the limits with its cheapest type, and drop its larger types."""
        node.give_way(self.limits.not_above(node.types, self.limits.peak(1 << node.cheapest())))
        self.limits.take(self.limits.peak(node.types), nodes=nodes)
