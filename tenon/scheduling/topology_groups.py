"""The groups of pods that topology rules count, each found once however many pods have the same rule.

A group is a kind of rule, a topology key, a choice of pods and, for spread, the nodes that count. How much skew a pod
accepts and how many domains it wants are its own affair, not the group's: pods that differ there share the counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tenon.apis import labels
from tenon.kube.pod_rules import PodTerm, SpreadRule
from tenon.kube.requirements import EXISTS, Requirement, Requirements
from tenon.kube.selectors import LabelSelector
from tenon.kube.taints import Toleration

HOSTNAME = labels.HOSTNAME
SPREAD = "spread"
AFFINITY = "affinity"
ANTI_AFFINITY = "anti-affinity"


@dataclass(frozen=True, slots=True)
class NodeFilter:
    """The nodes that a spread constraint counts: None means that this side is not looked at."""

    terms: tuple[Requirements, ...] | None = None
    tolerations: tuple[Toleration, ...] | None = None


def counted_nodes(
    rule: SpreadRule,
    spreads: Iterable[SpreadRule],
    terms: tuple[Requirements, ...],
    tolerations: tuple[Toleration, ...],
) -> NodeFilter:
    """The nodes that a spread constraint counts for pods that say ``spreads``, with these terms and tolerations.

    kube-scheduler passes over a node that lacks the label of any constraint that it looks at together with this one.
    """
    honored = terms if rule.honor_affinity else ()
    key = topology_key(rule.key)
    others = {topology_key(other.key) for other in spreads if other.hard == rule.hard} - {key, HOSTNAME}
    if others and key != HOSTNAME:
        present = Requirements.of(*(Requirement.new(other, EXISTS) for other in sorted(others)))
        honored = tuple(term.with_(present) for term in honored) or (present,)
    return NodeFilter(honored or None, tolerations if rule.honor_taints else None)


def topology_key(key: str) -> str:
    """The key in its present spelling."""
    return labels.ALIASES.get(key, key)


@dataclass(frozen=True, slots=True)
class Group:
    """Pods that are counted over the domains of ``key``; ``namespaces`` None means all."""

    kind: str
    key: str
    namespaces: frozenset[str] | None
    selector: LabelSelector | None
    nodes: NodeFilter = NodeFilter()


class Groups:
    """All groups of a batch, numbered from 1."""

    def __init__(self, namespaces: Mapping[str, Mapping[str, str]] | None) -> None:
        """``namespaces`` are the labels of the namespaces; None when they are not known."""
        self._namespaces = namespaces
        self._numbers: dict[Group, int] = {}
        self._groups: list[Group] = []
        self._by_label: dict[tuple[str, str], list[int]] = {}
        self._others: list[int] = []
        self._counting: dict[tuple[str, int], tuple[Mapping[str, str], tuple[int, ...]]] = {}

    def __getitem__(self, number: int) -> Group:
        return self._groups[number - 1]

    def __len__(self) -> int:
        return len(self._groups)

    def number(self, group: Group) -> int:
        """The number of a group, which is added when it is new."""
        known = self._numbers.get(group)
        if known is None:
            self._groups.append(group)
            known = self._numbers[group] = len(self._groups)
            self._counting.clear()
            self._index(known, group.selector)
        return known

    def namespaces_of(self, term: PodTerm, own: str) -> frozenset[str] | None:
        """The namespaces that a term is about; None for all, and where namespaces would have to be known."""
        if term.namespace_selector is None:
            return frozenset(term.namespaces or (own,))
        if not term.namespace_selector.expressions or self._namespaces is None:
            return None
        chosen = (
            name
            for name, texts in self._namespaces.items()
            if term.namespace_selector.matches({"kubernetes.io/metadata.name": name, **texts})
        )
        return frozenset((*chosen, *term.namespaces))

    def joint(self, terms: Sequence[PodTerm], own: str) -> tuple[int, ...]:
        """The groups of a pod's required affinity terms, one for each.

        kube-scheduler counts for each of them only pods that meet all of them.
        """
        namespaces: frozenset[str] | None = None
        selector: LabelSelector | None = LabelSelector()
        for term in terms:
            meant = self.namespaces_of(term, own)
            namespaces = meant if namespaces is None else namespaces if meant is None else namespaces & meant
            selector = selector.both(term.selector) if selector is not None and term.selector is not None else None
        return tuple(self.number(Group(AFFINITY, topology_key(term.key), namespaces, selector)) for term in terms)

    def counting(self, namespace: str, texts: Mapping[str, str]) -> tuple[int, ...]:
        """The groups that count a pod of this namespace with these labels, ascending."""
        if not self._groups:
            return ()
        key = (namespace, id(texts))
        known = self._counting.get(key)
        if known is None:
            near = {number for pair in texts.items() for number in self._by_label.get(pair, ())}
            found = tuple(n for n in sorted(near.union(self._others)) if self._counts(self[n], namespace, texts))
            # the labels are kept, so that no other dictionary can get their identity
            known = self._counting[key] = (texts, found)
        return known[1]

    def _index(self, number: int, selector: LabelSelector | None) -> None:
        """Find the group by a label that its pods must have, so that each pod is held against few groups only."""
        if selector is None:
            return
        for key, operator, values in selector.expressions:
            if operator == "In":
                for value in values:
                    self._by_label.setdefault((key, value), []).append(number)
                return
        self._others.append(number)

    @staticmethod
    def _counts(group: Group, namespace: str, texts: Mapping[str, str]) -> bool:
        if group.namespaces is not None and namespace not in group.namespaces:
            return False
        return group.selector is not None and group.selector.matches(texts)
