"""The domains that the next pods of a class may be placed in, one after another, and the class narrowed to each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product

from tenon.scheduling.domains import ANY, Domains, settled
from tenon.scheduling.existing import Room
from tenon.scheduling.fleet import Fleet
from tenon.scheduling.pod_classes import PodClass
from tenon.scheduling.requirements import DOES_NOT_EXIST, IN, Requirement, Requirements

Chosen = dict[str, str | None]
"""Topology key -> domain, None for a node that lacks the label; a key that is left open is not in it."""


class Choice:
    """Domains for the next pods of a class, and the class narrowed to them."""

    __slots__ = ("chosen", "name", "next_bin", "next_room", "pods", "price")

    def __init__(self, chosen: Chosen, pods: PodClass, price: float) -> None:
        self.chosen = chosen
        self.pods = pods
        self.price = price
        self.name = tuple((key, value or "") for key, value in sorted(chosen.items()))
        self.next_room = 0
        self.next_bin: dict[int, int] = {}


class Choices:
    """The choices of each class, worked out once."""

    def __init__(self, rooms: Sequence[Room], fleets: Sequence[Fleet], domains: Domains) -> None:
        """Take the nodes that may be used and those that could be bought."""
        self._rooms = rooms
        self._fleets = fleets
        self._domains = domains
        self._known: dict[PodClass, list[Choice]] = {}
        self._terms: dict[tuple[Requirements, ...], tuple[Requirements, ...]] = {}

    def of(self, pod_class: PodClass) -> list[Choice]:
        """The domains that the pods may be placed in."""
        known = self._known.get(pod_class)
        if known is None:
            known = self._known[pod_class] = list(self._find(pod_class))
        return known

    def forget_nodes(self) -> None:
        """Look at all new nodes again: they have changed."""
        for choices in self._known.values():
            for choice in choices:
                choice.next_bin.clear()

    def _find(self, pod_class: PodClass) -> Iterable[Choice]:
        rules = pod_class.area
        if rules is None:
            yield Choice({}, pod_class, 0.0)
            return
        must = {spread.key for spread in rules.spreads} | {term.key for term in rules.affine}
        settle = must | {term.key for term in rules.anti}
        options: list[list[tuple[str, str | None, bool]]] = []
        for key in rules.keys:
            values = self._domains.usable(pod_class, key).union(
                value for room in self._rooms if (value := settled(room, key)) is not None
            )
            ways: list[tuple[str, str | None, bool]] = [(key, value, True) for value in sorted(values - {ANY})]
            if key not in must:
                ways.append((key, None, True))
            if key not in settle:
                ways.append((key, None, False))
            options.append(ways)
        for combination in product(*options):
            wanted = [
                Requirement.new(key, IN, (value,)) if value is not None else Requirement.new(key, DOES_NOT_EXIST)
                for key, value, closed in combination
                if closed
            ]
            asked = Requirements.of(*wanted)
            terms = [term for term in (own.with_(asked) for own in pod_class.terms) if _possible(term, asked)]
            if terms:
                distinct = tuple(dict.fromkeys(terms))
                # equal terms are one object, which makes looking up what they lead to cheap
                shared = self._terms.setdefault(distinct, distinct)
                narrowed = replace(pod_class, terms=shared, base=pod_class.origin)
                chosen: Chosen = {key: value for key, value, closed in combination if closed}
                yield Choice(chosen, narrowed, self._price(narrowed))

    def _price(self, pod_class: PodClass) -> float:
        """What the cheapest new node for one of the pods costs."""
        prices = []
        for fleet in self._fleets:
            template = fleet.template
            if pod_class.tolerates(template.pool.taints):
                for state in template.successors(template.start, pod_class):
                    types = template.fitting(state, pod_class.amounts)
                    if types:
                        prices.append(template.price(state, types))
        return min(prices, default=float("inf"))


def _possible(term: Requirements, asked: Requirements) -> bool:
    return not any(term[key].contradicts() for key in asked)
