"""Compiles rules between pods to rules about a node (`HostRules`) and about a domain (`AreaRules`).

A pod takes part in a group if one of its own rules is about the group, or if the group counts it. Pods that take part
in the same groups in the same way are one class, whatever their labels are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tenon.kube.pod import Pod
from tenon.kube.pod_rules import PodRules, PodTerm, SpreadRule
from tenon.kube.requirements import Requirements
from tenon.kube.taints import Toleration
from tenon.scheduling.model import Problem
from tenon.scheduling.pods.hostname_rules import DaemonRules, HostRules
from tenon.scheduling.pods.node_facts import NodeFacts, PodKind
from tenon.scheduling.pods.topology_groups import (
    AFFINITY,
    ANTI_AFFINITY,
    HOSTNAME,
    SPREAD,
    Group,
    Groups,
    counted_nodes,
    topology_key,
)


@dataclass(frozen=True, slots=True)
class AreaSpread:
    """A spread constraint over a key other than the hostname. The skew test depends on ``counts_itself``."""

    group: int
    key: str
    max_skew: int
    min_domains: int
    counts_itself: bool


@dataclass(frozen=True, slots=True)
class AreaTerm:
    """A required term of affinity or anti-affinity over a key other than the hostname."""

    group: int
    key: str
    counts_itself: bool


@dataclass(frozen=True, slots=True)
class AreaRules:
    """What pods of one class require of the domains of their node, such as its zone."""

    spreads: tuple[AreaSpread, ...] = ()
    affine: tuple[AreaTerm, ...] = ()
    anti: tuple[AreaTerm, ...] = ()
    repelled: tuple[tuple[int, str], ...] = ()
    """(group, key) of groups that count the pods and that other pods may have anti-affinity to."""
    counted: tuple[tuple[int, str], ...] = ()
    """(group, key) of all groups that count the pods."""
    holds: tuple[tuple[int, str], ...] = ()
    """(group, key) of the pods' own anti-affinity."""
    keys: tuple[str, ...] = ()
    """All keys above, in order."""


@dataclass(frozen=True, slots=True)
class HostAffinity:
    """A required affinity term over the hostname: the node must have a pod of the group."""

    group: int
    counts_itself: bool


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """How pods take part in topology rules. Pods that take part in the same way share one object."""

    rules: PodRules
    namespace: str
    counted: tuple[int, ...]
    matched: tuple[tuple[str, str], ...]
    """The labels that ``matchLabelKeys`` name, with the pod's values."""


Compiled = tuple[HostRules | None, tuple[HostAffinity, ...], AreaRules | None, DaemonRules | None]
"""What pods require of their node, which pods must be on it, what they require of its domains and of its DaemonSets."""


class Topology:
    """The groups of a batch, and how each pod takes part in them."""

    def __init__(self, problem: Problem, facts: NodeFacts | None = None) -> None:
        """Find the groups of all pods, including running ones. A running pod's preferences do not matter any more."""
        node_facts = facts or NodeFacts()
        self.groups = Groups(problem.namespaces)
        self._parts: dict[tuple[object, ...], Part] = {}
        self._rules_keys: set[tuple[object, ...]] = set()
        self._compiled: dict[tuple[object, ...], Compiled] = {}
        for pod in problem.pods:
            if pod.rules:
                self._register(pod)
        own = len(self.groups)
        self._groups_held: dict[PodKind, tuple[int, ...]] = {}
        for pod in problem.daemons:
            self._avoided(pod.rules.anti_affinity, pod.namespace)
        for node in problem.nodes:
            for kind, _ in node_facts.kinds_on(node):
                if kind.anti_affinity:
                    self.held(kind)
        self._of_others = frozenset(range(own + 1, len(self.groups) + 1))
        by_daemons = [self.on_daemon(pod) for pod in problem.daemons] if len(self.groups) else []
        self.of_daemons = frozenset[int]().union(*by_daemons)
        """The groups that DaemonSets' pods take part in, as in `DaemonRules`."""

    def part(self, pod: Pod) -> Part | None:
        """How a pending pod takes part; None if it does not."""
        counted = self.groups.counting(pod.namespace, pod.labels)
        if not counted and not pod.rules:
            return None
        matched = self._matched(pod)
        key = (pod.rules, pod.namespace if pod.rules else "", counted, matched)
        part = self._parts.get(key)
        if part is None:
            part = self._parts[key] = Part(pod.rules, pod.namespace, counted, matched)
        return part

    def held(self, kind: PodKind) -> tuple[int, ...]:
        """The groups that the required anti-affinity of running pods is about."""
        if not kind.anti_affinity:
            return ()
        numbers = self._groups_held.get(kind)
        if numbers is None:
            numbers = self._groups_held[kind] = self._avoided(kind.anti_affinity, kind.namespace)
        return numbers

    def idle(self, parts: Iterable[Part | None]) -> frozenset[int]:
        """The groups that only the anti-affinity of running pods is about, and that count none of these parts."""
        return self._of_others.difference(*(part.counted for part in parts if part is not None))

    def _avoided(self, anti_affinity: Iterable[PodTerm], namespace: str) -> tuple[int, ...]:
        return tuple(self._term(ANTI_AFFINITY, term, namespace) for term in anti_affinity)

    def on_daemon(self, pod: Pod) -> frozenset[int]:
        """The groups that a DaemonSet's pod takes part in, as in `DaemonRules`."""
        avoided = self._avoided(pod.rules.anti_affinity, pod.namespace)
        return frozenset((*self.groups.counting(pod.namespace, pod.labels), *(~group for group in avoided)))

    def compile(
        self, part: Part, rules: PodRules, terms: tuple[Requirements, ...], tolerations: tuple[Toleration, ...]
    ) -> Compiled:
        """Return what the rules require of the pods' node and of its domains.

        A preference that counts as a rule keeps these pods away from other pods, but not other pods away from these.
        """
        if rules is not part.rules:
            return self._compile(part, rules, terms, tolerations)
        compiled = self._compiled.get((part, terms, tolerations))
        if compiled is None:
            compiled = self._compiled[part, terms, tolerations] = self._compile(part, rules, terms, tolerations)
        return compiled

    def _compile(
        self, part: Part, rules: PodRules, terms: tuple[Requirements, ...], tolerations: tuple[Toleration, ...]
    ) -> Compiled:
        anti_groups = [self._term(ANTI_AFFINITY, term, part.namespace) for term in part.rules.anti_affinity]
        anti = [self._term(ANTI_AFFINITY, term, part.namespace) for term in rules.anti_affinity]
        required = part.rules.affinity
        wished = rules.affinity[len(required) :]
        near = [*self.groups.joint(required, part.namespace)]
        near += [self._term(AFFINITY, term, part.namespace) for term in wished]
        spreads = [(rule, self._spread(rule, part, terms, tolerations)) for rule in rules.spreads]
        return (
            self._host_rules(part.counted, anti, anti_groups, spreads),
            tuple(HostAffinity(n, n in part.counted) for n in near if self.groups[n].key == HOSTNAME),
            self._area_rules(part.counted, anti, anti_groups, near, spreads),
            self._daemon_rules(part.counted, anti),
        )

    def _daemon_rules(self, counted: tuple[int, ...], anti: list[int]) -> DaemonRules | None:
        if not self.of_daemons:
            return None
        avoided = self.of_daemons.intersection((*anti, *(~group for group in counted)))
        return DaemonRules(avoided=avoided) if avoided else None

    def _host_rules(
        self, counted: tuple[int, ...], anti: list[int], anti_groups: list[int], spreads: list[tuple[SpreadRule, int]]
    ) -> HostRules | None:
        host_groups = {n for n in (*counted, *anti, *(n for _, n in spreads)) if self.groups[n].key == HOSTNAME}
        if not host_groups:
            return None
        limits = [(n, rule.max_skew) for rule, n in spreads if n in host_groups]
        limits += [(n, 1 if n in counted else 0) for n in anti if n in host_groups]
        return HostRules(
            counted=tuple(n for n in counted if n in host_groups),
            holds=tuple(n for n in anti_groups if n in host_groups),
            at_most=tuple((n, limit) for n, limit in limits if n in counted),
            beside_at_most=tuple((n, limit) for n, limit in limits if n not in counted),
            repelled=tuple(n for n in counted if n in host_groups and self.groups[n].kind == ANTI_AFFINITY),
        )

    def _area_rules(
        self,
        counted: tuple[int, ...],
        anti: list[int],
        anti_groups: list[int],
        near: list[int],
        spreads: list[tuple[SpreadRule, int]],
    ) -> AreaRules | None:
        def away(number: int) -> bool:
            return self.groups[number].key != HOSTNAME

        def term(number: int) -> AreaTerm:
            return AreaTerm(number, self.groups[number].key, number in counted)

        involved = {n for n in (*counted, *anti, *near, *(n for _, n in spreads)) if away(n)}
        if not involved:
            return None
        pairs = tuple((n, self.groups[n].key) for n in counted if away(n))
        return AreaRules(
            spreads=tuple(
                AreaSpread(n, self.groups[n].key, rule.max_skew, rule.min_domains, n in counted)
                for rule, n in spreads
                if away(n)
            ),
            affine=tuple(term(n) for n in near if away(n)),
            anti=tuple(term(n) for n in anti if away(n)),
            repelled=tuple((n, key) for n, key in pairs if self.groups[n].kind == ANTI_AFFINITY),
            counted=pairs,
            holds=tuple((n, self.groups[n].key) for n in anti_groups if away(n)),
            keys=tuple(sorted({self.groups[n].key for n in involved})),
        )

    def _register(self, pod: Pod) -> None:
        """Register every group that the pod's rules may be about, before pods are counted."""
        rules, rules_key = (
            pod.rules,
            (pod.rules, pod.namespace, pod.required_terms, pod.tolerations, self._matched(pod)),
        )
        if rules_key in self._rules_keys:
            return
        self._rules_keys.add(rules_key)
        part = Part(rules, pod.namespace, (), self._matched(pod))
        for spread in rules.spreads:
            self._spread(spread, part, pod.required_terms, pod.tolerations)
        self.groups.joint(rules.affinity, pod.namespace)
        for kind, terms in (
            (AFFINITY, tuple(term for _, term in rules.preferred_affinity)),
            (ANTI_AFFINITY, (*rules.anti_affinity, *(term for _, term in rules.preferred_anti_affinity))),
        ):
            for term in terms:
                self._term(kind, term, pod.namespace)

    def _term(self, kind: str, term: PodTerm, namespace: str) -> int:
        namespaces = self.groups.namespaces_of(term, namespace)
        return self.groups.number(Group(kind, topology_key(term.key), namespaces, term.selector))

    def _spread(
        self, rule: SpreadRule, part: Part, terms: tuple[Requirements, ...], tolerations: tuple[Toleration, ...]
    ) -> int:
        selector = rule.selector
        if selector is not None and rule.match_label_keys:
            selector = selector.also({key: value for key, value in part.matched if key in rule.match_label_keys})
        if selector is not None and not selector.expressions:
            selector = None  # kube-scheduler counts no pod for an empty selector of a topology spread constraint
        nodes = counted_nodes(rule, part.rules.spreads, terms, tolerations)
        return self.groups.number(Group(SPREAD, topology_key(rule.key), frozenset((part.namespace,)), selector, nodes))

    @staticmethod
    def _matched(pod: Pod) -> tuple[tuple[str, str], ...]:
        names = {key for spread in pod.rules.spreads for key in spread.match_label_keys}
        return tuple((key, pod.labels[key]) for key in sorted(names) if key in pod.labels)
