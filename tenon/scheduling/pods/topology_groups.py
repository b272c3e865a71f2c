"""The groups of pods that topology rules count. Pods with the same rule share one group.

A group is a kind of rule, a topology key, a selection of pods and, for spread, the nodes that count. The accepted skew
and the minimum number of domains are not part of the group: pods that differ there share the counts.
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
    """The nodes that a spread constraint counts. None means that terms, or tolerations, do not matter."""

    terms: tuple[Requirements, ...] | None = None
    tolerations: tuple[Toleration, ...] | None = None


def counted_nodes(
    rule: SpreadRule,
    spreads: Iterable[SpreadRule],
    terms: tuple[Requirements, ...],
    tolerations: tuple[Toleration, ...],
) -> NodeFilter:
    """Return the nodes that a spread constraint counts, for pods with these constraints, terms and tolerations.

    kube-scheduler ignores nodes that lack the topology key of any constraint that it evaluates together with this one.
    """
    honored = terms if rule.honor_affinity else ()
    key = topology_key(rule.key)
    other_keys = {topology_key(other_key.key) for other_key in spreads if other_key.hard == rule.hard} - {key, HOSTNAME}
    if other_keys and key != HOSTNAME:
        present = Requirements.of(*(Requirement.new(other_key, EXISTS) for other_key in sorted(other_keys)))
        honored = tuple(term.with_(present) for term in honored) or (present,)
    return NodeFilter(honored or None, tolerations if rule.honor_taints else None)


def topology_key(key: str) -> str:
    """The current name of a deprecated label key. Other keys are unchanged."""
    return labels.ALIASES.get(key, key)


@dataclass(frozen=True, slots=True)
class Group:
    """Pods that are counted over the domains of ``key``. ``namespaces`` is None for all namespaces."""

    kind: str
    key: str
    namespaces: frozenset[str] | None
    selector: LabelSelector | None
    nodes: NodeFilter = NodeFilter()


class Groups:
    """All groups of a batch, numbered from 1."""

    def __init__(self, namespaces: Mapping[str, Mapping[str, str]] | None) -> None:
        """Take the labels of the namespaces; None if unknown."""
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
        """Return the number of a group. A new group is added."""
        number = self._numbers.get(group)
        if number is None:
            self._groups.append(group)
            number = self._numbers[group] = len(self._groups)
            self._counting.clear()
            self._index(number, group.selector)
        return number

    def namespaces_of(self, term: PodTerm, own: str) -> frozenset[str] | None:
        """The namespaces that a term selects; None for all, or if the labels of namespaces are needed but unknown."""
        if term.namespace_selector is None:
            return frozenset(term.namespaces or (own,))
        if not term.namespace_selector.expressions or self._namespaces is None:
            return None
        selected = (
            name
            for name, texts in self._namespaces.items()
            if term.namespace_selector.matches({"kubernetes.io/metadata.name": name, **texts})
        )
        return frozenset((*selected, *term.namespaces))

    def joint(self, terms: Sequence[PodTerm], own: str) -> tuple[int, ...]:
        """Return the groups of a pod's required affinity terms, one per term.

        kube-scheduler counts, for each of the terms, only pods that match all of them.
        """
        namespaces: frozenset[str] | None = None
        selector: LabelSelector | None = LabelSelector()
        for term in terms:
            selected_namespaces = self.namespaces_of(term, own)
            namespaces = (
                selected_namespaces
                if namespaces is None
                else namespaces
                if selected_namespaces is None
                else namespaces & selected_namespaces
            )
            selector = selector.both(term.selector) if selector is not None and term.selector is not None else None
        return tuple(self.number(Group(AFFINITY, topology_key(term.key), namespaces, selector)) for term in terms)

    def counting(self, namespace: str, texts: Mapping[str, str]) -> tuple[int, ...]:
        """Groups that count a pod of this namespace with these labels, in ascending order."""
        if not self._groups:
            return ()
        key = (namespace, id(texts))
        counting = self._counting.get(key)
        if counting is None:
            near = {number for pair in texts.items() for number in self._by_label.get(pair, ())}
            numbers = tuple(n for n in sorted(near.union(self._others)) if self._counts(self[n], namespace, texts))
            # Keep the labels, so that no other dictionary can reuse their identity.
            counting = self._counting[key] = (texts, numbers)
        return counting[1]

    def _index(self, number: int, selector: LabelSelector | None) -> None:
        """Index the group by a label that its pods must have, so that each pod is matched against few groups."""
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
