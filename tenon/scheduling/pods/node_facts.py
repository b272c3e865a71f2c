"""What plans need to know of existing nodes, computed once for all plans that a search makes of a cluster.

A search for moves makes hundreds of plans that differ in a few nodes. Labels and pods of all other nodes are the same
objects each time, so what follows from them alone is kept by their identity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.kube.pod_rules import PodTerm
from tenon.kube.requirements import Requirement, Requirements
from tenon.scheduling.model import Node


@dataclass(frozen=True, slots=True, eq=False)
class PodKind:
    """Running pods that no rule between pods tells apart. Equal pods share one object."""

    namespace: str
    labels: Mapping[str, str]
    anti_affinity: tuple[PodTerm, ...]


class NodeLabels:
    """The labels of nodes with equal ones, and the terms that they are known to meet."""

    __slots__ = ("_domains", "_met", "settled", "values")

    def __init__(self, node: Node) -> None:
        """Read the labels of a node, or what is known of them so far."""
        node_labels = {labels.ALIASES.get(key, key): value for key, value in node.labels.items()}
        self.values = Requirements.from_labels(node_labels)
        if node.requirements is not None:
            self.values = node.requirements.with_(self.values)
        self.settled = node.requirements is None
        self._domains: dict[str, str | None] = {}
        self._met: dict[Requirements, bool] = {}

    def domain(self, key: str) -> str | None:
        """The value of a label; None if the node has none, or may still get one of several."""
        if key not in self._domains:
            requirement = self.values.get(key)
            is_open = requirement.complement or len(requirement.members) != 1
            self._domains[key] = None if is_open else requirement.values[0]
        return self._domains[key]

    def meet(self, term: Requirements) -> bool:
        """Whether a node with these labels certainly meets a term."""
        is_met = self._met.get(term)
        if is_met is None:
            is_met = self._met[term] = all(map(self._is_certain, term.values()))
        return is_met

    def _is_certain(self, requirement: Requirement) -> bool:
        """Whether the requirement holds, whatever values the labels get that are not settled yet."""
        if requirement.key not in self.values:
            return requirement.may_be_absent and (self.settled or requirement.key not in labels.WELL_KNOWN)
        mine = self.values[requirement.key]
        if not mine.complement:
            return all(map(requirement.has, mine.members)) and (bool(mine.members) or requirement.may_be_absent)
        narrowed = mine.intersection(requirement)
        return (narrowed.complement, narrowed.members, narrowed.gte, narrowed.lte) == (
            mine.complement,
            mine.members,
            mine.gte,
            mine.lte,
        )


class NodeFacts:
    """What is known of the nodes so far. Labels, pods and requests of nodes must not change in place."""

    def __init__(self) -> None:
        """Start without nodes."""
        self._labels: dict[tuple[int, int], tuple[Node, NodeLabels]] = {}
        self._kinds_on: dict[int, tuple[Sequence[Pod], tuple[tuple[PodKind, int], ...]]] = {}
        self._kind_of: dict[tuple[str, int, int], tuple[Pod, PodKind]] = {}
        self._kinds: dict[tuple[object, ...], PodKind] = {}
        self._free: dict[tuple[int, int, tuple[str, ...]], tuple[Node, tuple[int, ...]]] = {}

    # Each answer is kept with the object that it is about, so that the identity of that object stays its own.

    def labels_of(self, node: Node) -> NodeLabels:
        """Return the labels of a node."""
        key = (id(node.labels), id(node.requirements))
        node_and_labels = self._labels.get(key)
        if node_and_labels is None:
            node_and_labels = self._labels[key] = (node, NodeLabels(node))
        return node_and_labels[1]

    def free_on(self, node: Node, names: tuple[str, ...]) -> tuple[int, ...]:
        """Return what a node has left of each resource."""
        key = (id(node.allocatable), id(node.used), names)
        node_and_free = self._free.get(key)
        if node_and_free is None:
            free = tuple(node.allocatable.get(name, 0) - node.used.get(name, 0) for name in names)
            node_and_free = self._free[key] = (node, free)
        return node_and_free[1]

    def kinds_on(self, node: Node) -> tuple[tuple[PodKind, int], ...]:
        """Return the kinds of the pods on a node, in the order of the pods, with the number of each."""
        if not node.pods:
            return ()
        pods_and_kinds = self._kinds_on.get(id(node.pods))
        if pods_and_kinds is None:
            kinds = tuple(Counter(map(self._kind, node.pods)).items())
            pods_and_kinds = self._kinds_on[id(node.pods)] = (node.pods, kinds)
        return pods_and_kinds[1]

    def _kind(self, pod: Pod) -> PodKind:
        same_objects = (pod.namespace, id(pod.labels), id(pod.rules))
        pod_and_kind = self._kind_of.get(same_objects)
        if pod_and_kind is None:
            terms = pod.rules.anti_affinity
            key = (pod.namespace, frozenset(pod.labels.items()), terms)
            kind = self._kinds.setdefault(key, PodKind(pod.namespace, pod.labels, terms))
            pod_and_kind = self._kind_of[same_objects] = (pod, kind)
        return pod_and_kind[1]
