"""Lists the domains that the next pods of a class may be placed in, and narrows the class to each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf

from tenon.kube.requirements import DOES_NOT_EXIST, IN, Requirement, Requirements
from tenon.scheduling.domains.domain_values import ANY, Domains, value_on_node
from tenon.scheduling.existing.existing_nodes import Room
from tenon.scheduling.packing.fleet import Fleet
from tenon.scheduling.pods.pod_classes import PodClass
from tenon.scheduling.pods.topology import AreaRules

Chosen = dict[str, str | None]
"""Topology key -> domain, or None for a node that lacks the label. Keys that stay open are not included."""

Terms = tuple[Requirements, ...]

MAX_CANDIDATES = 5_000
"""The most combinations of domains to try. Zone and instance type together have about three thousand. Rules with more
combinations are hardly intended, and every pod would have to check them all.
"""


class DomainCandidate:
    """Domains for the next pods of a class, and the class narrowed to them."""

    __slots__ = (
        "_beside",
        "_origin",
        "_pods",
        "domain_values",
        "name",
        "next_bin",
        "next_room",
        "price",
        "terms",
        "turn",
    )

    def __init__(self, domain_values: Chosen, origin: PodClass, terms: Terms, price: float) -> None:
        self.domain_values = domain_values
        self.terms = terms
        self.price = price
        self.name = tuple((key, value or "") for key, value in sorted(domain_values.items()))
        self.turn = 0
        """Which of the candidates comes first that are equal but for their names."""
        self.next_room = 0
        self.next_bin: dict[int, int] = {}
        self._origin = origin
        self._pods = origin if terms is origin.terms else None
        self._beside: dict[frozenset[int], DomainCandidate] = {}

    def beside(self, groups: frozenset[int]) -> DomainCandidate:
        """The same domains, for nodes that get DaemonSets' pods of these groups."""
        variant = self._beside.get(groups)
        if variant is None:
            origin = self._origin.beside_daemons(groups)
            variant = self._beside[groups] = DomainCandidate(self.domain_values, origin, self.terms, self.price)
            variant.turn = self.turn
        return variant

    @property
    def pods(self) -> PodClass:
        """The class narrowed to the domains."""
        if self._pods is None:
            self._pods = self._origin.narrowed(self.terms)
        return self._pods


@dataclass(frozen=True, slots=True)
class _KeyOptions:
    """How the keys of a class may be settled."""

    pod_class: PodClass
    must: frozenset[str]
    """Keys that need a domain."""
    settle: frozenset[str]
    """Keys that must not stay open."""


class DomainCandidates:
    """The choices of each class, computed once."""

    def __init__(
        self, rooms: Sequence[Room], fleets: Sequence[Fleet], domains: Domains, *, in_turn: bool = False
    ) -> None:
        """Take the nodes that may be used, and the fleets that could launch new ones.

        With ``in_turn``, each class begins with another of the domains between which nothing else decides.
        """
        self._turns: dict[int, int] | None = {} if in_turn else None
        self._rooms = rooms
        self._fleets = fleets
        self._domains = domains
        self._candidates: dict[PodClass, list[DomainCandidate]] = {}
        self._options: dict[tuple[object, ...], list[tuple[Chosen, Terms]]] = {}
        self._shared: dict[Terms, Terms] = {}
        self._prices: dict[tuple[object, ...], float] = {}
        self._present: dict[str, frozenset[str]] = {}
        self._boundless: set[tuple[object, ...]] = set()

    def has_too_many(self, pod_class: PodClass) -> bool:
        """Whether the pods' rules allow more than `MAX_CANDIDATES` combinations of domains, so that none is tried."""
        return pod_class.area is not None and self._asked(pod_class) in self._boundless

    def of(self, pod_class: PodClass) -> list[DomainCandidate]:
        """The domains in which the pods may be placed."""
        candidates = self._candidates.get(pod_class)
        if candidates is None:
            candidates = self._candidates[pod_class] = [
                DomainCandidate(domain_values, pod_class, terms, self._price(pod_class, terms))
                for domain_values, terms in self._narrowed(pod_class)
            ]
            if self._turns is not None:
                turn = self._turns.setdefault(id(pod_class.origin), len(self._turns))
                for number, candidate in enumerate(sorted(candidates, key=lambda candidate: candidate.name)):
                    candidate.turn = (number + turn) % len(candidates)
        return candidates

    def forget_nodes(self) -> None:
        """Consider all nodes again, because they changed."""
        for choices in self._candidates.values():
            for choice in choices:
                choice.next_room = 0
                choice.next_bin.clear()

    def holds_in(self, pod_class: PodClass, key: str, value: str) -> bool:
        """Whether a new node with this value of the key can hold one of the pods, whatever their other rules say."""
        if value == ANY:
            return True
        value_requirements = Requirements.of(Requirement.new(key, IN, (value,)))
        terms = tuple(
            term
            for term in (own.with_(value_requirements) for own in pod_class.terms)
            if _possible(term, value_requirements)
        )
        return bool(terms) and self._price(pod_class, self._shared.setdefault(terms, terms)) < inf

    def _narrowed(self, pod_class: PodClass) -> list[tuple[Chosen, Terms]]:
        """Return each combination of domains, with the pods' terms narrowed to it."""
        rules = pod_class.area
        if rules is None:
            return [({}, pod_class.terms)]
        cache_key = self._asked(pod_class)
        options = self._options.get(cache_key)
        if options is None:
            ways = _KeyOptions(pod_class, *_topology_keys(rules))
            options = list(islice(self._find(ways, rules.keys, {}, pod_class.terms), MAX_CANDIDATES + 1))
            if len(options) > MAX_CANDIDATES:
                self._boundless.add(cache_key)
                options = []
            self._options[cache_key] = options
        return options

    @staticmethod
    def _asked(pod_class: PodClass) -> tuple[object, ...]:
        """The properties of a class that determine its combinations."""
        rules = pod_class.area or AreaRules()
        return (pod_class.terms, pod_class.own_terms, pod_class.tolerations, rules.keys, *_topology_keys(rules))

    def _find(
        self, ways: _KeyOptions, keys: Sequence[str], domain_values: Chosen, terms: Terms
    ) -> Iterable[tuple[Chosen, Terms]]:
        """Settle one key after another, each within what the earlier ones leave: the full product may be very large."""
        if not keys:
            # share equal terms as one object, which makes lookups by terms cheap
            yield domain_values, self._shared.setdefault(terms, terms)
            return
        key, other_keys = keys[0], keys[1:]
        for value in self._values(ways.pod_class, key, terms if domain_values else None):
            value_requirements = Requirements.of(Requirement.new(key, IN, (value,)))
            yield from self._with_value(ways, other_keys, {**domain_values, key: value}, terms, value_requirements)
        if key not in ways.must:
            value_requirements = Requirements.of(Requirement.new(key, DOES_NOT_EXIST))
            yield from self._with_value(ways, other_keys, {**domain_values, key: None}, terms, value_requirements)
        if key not in ways.settle:
            yield from self._find(ways, other_keys, domain_values, terms)

    def _with_value(
        self,
        ways: _KeyOptions,
        keys: Sequence[str],
        domain_values: Chosen,
        terms: Terms,
        value_requirements: Requirements,
    ) -> Iterable[tuple[Chosen, Terms]]:
        met = [term for term in (own.with_(value_requirements) for own in terms) if _possible(term, value_requirements)]
        if met:
            yield from self._find(ways, keys, domain_values, tuple(dict.fromkeys(met)))

    def _values(self, pod_class: PodClass, key: str, terms: Terms | None) -> list[str]:
        """The domains of a key: those of existing nodes, and those of new nodes that meet ``terms``."""
        new = set(self._domains.usable(pod_class, key))
        if terms is not None:
            reachable_values = self._domains.reachable(terms, key)
            new = new if ANY in reachable_values else new & reachable_values
        return sorted(new.union(self._on_rooms(key)) - {ANY})

    def _on_rooms(self, key: str) -> frozenset[str]:
        """The domains of the nodes that may be used."""
        present = self._present.get(key)
        if present is None:
            values = (value_on_node(room, key) for room in self._rooms)
            present = self._present[key] = frozenset(value for value in values if value is not None)
        return present

    def _price(self, pod_class: PodClass, terms: Terms) -> float:
        """Price of the cheapest new node for one of the pods in these domains; infinite if there is none."""
        cache_key = (terms, pod_class.tolerations, pod_class.strict, pod_class.amounts, pod_class.daemons)
        price = self._prices.get(cache_key)
        if price is None:
            narrowed = pod_class.narrowed(terms)
            prices = (
                fleet.template.price_of_one(narrowed)
                for fleet in self._fleets
                if pod_class.tolerates(fleet.template.pool.taints)
            )
            price = self._prices[cache_key] = min(prices, default=inf)
        return price


def _topology_keys(rules: AreaRules) -> tuple[frozenset[str], frozenset[str]]:
    """The keys that need a domain, and those that must not stay open."""
    must = frozenset({spread.key for spread in rules.spreads} | {term.key for term in rules.affine})
    return must, must.union(term.key for term in rules.anti)


def _possible(term: Requirements, value_requirements: Requirements) -> bool:
    return not any(term[key].contradicts() for key in value_requirements)
