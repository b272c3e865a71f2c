"""kube-scheduler in small: whether a node that is known in full lets a pod in, next to the pods that are there."""

from __future__ import annotations

from collections import Counter

from tests.oracle.alone import check_pod, ports_clash
from tests.oracle.beside_daemons import still_to_come, tolerates
from tests.oracle.between import Between
from tests.oracle.conditions import HOST
from tests.oracle.inputs import Inputs, Pod, Spread
from tests.oracle.places import Standing
from tests.oracle.quantities import lacking, plus


class Scheduler:
    """A cluster of nodes; all pods on them count as running."""

    def __init__(self, inputs: Inputs, nodes: list[Standing]) -> None:
        self._inputs = inputs
        self.nodes = nodes
        self._between = Between(inputs, nodes)
        self._expected_pods = {node.name: still_to_come(inputs, node) for node in nodes}

    def add(self, node: Standing) -> None:
        """Take one more node."""
        self.nodes.append(node)
        self._expected_pods[node.name] = still_to_come(self._inputs, node)

    def remove(self, node: Standing) -> None:
        """Give a node up."""
        self.nodes.remove(node)

    def admits(self, node: Standing, pod: Pod) -> bool:
        """Whether the pod may be bound to one of the nodes."""
        if node.leaving or not self._fits(node, pod):
            return False
        if any(True for _ in check_pod(self._inputs, node, pod)):
            return False
        runnings = (*node.running, *node.planned)
        if ports_clash(pod, runnings) or (pod.ports and ports_clash(pod, self._daemons_on(node))):
            return False
        return (
            all(self._even(node, pod, spread) for spread in pod.spreads)
            and self._near(node, pod)
            and (self._away(node, pod))
        )

    def _fits(self, node: Standing, pod: Pod) -> bool:
        whole = plus(
            (pod.requests, self._expected_pods[node.name], *(p.requests for p in (*node.running, *node.planned)))
        )
        return not any(pod.requests.get(name) for name in lacking(whole, node.room))

    def _daemons_on(self, node: Standing) -> list[Pod]:
        return [d for d in self._inputs.daemons if tolerates(d.tolerations, node.taints) and d.wish.met(node.labels)]

    def _pods_of(self, node: Standing) -> list[Pod]:
        """The pods on a node. On a new one, those of DaemonSets are there before any other."""
        pods = [] if node.name in self._inputs.nodes else self._daemons_on(node)
        return [*node.running, *node.planned, *pods]

    def _even(self, node: Standing, pod: Pod, spread: Spread) -> bool:
        domain = node.labels.get(spread.key)
        if domain is None:
            return False
        counts: Counter[str] = Counter(dict.fromkeys(self._between.offered(spread), 0) if spread.key != HOST else {})
        for other in self.nodes:
            value = other.labels.get(spread.key)
            if value is not None and (other is node or self._between.counts(spread, other)):
                pods = (*other.running, *other.planned)
                counts[value] += sum(spread.selector.has(p.namespace, p.labels) for p in pods)
        least = 0 if spread.key == HOST or len(counts) < spread.least_domains else min(counts.values())
        itself = spread.selector.has(pod.namespace, pod.labels)
        return counts[domain] + itself - least <= spread.most_skew

    def _near(self, node: Standing, pod: Pod) -> bool:
        if not pod.near:
            return True
        if any(term.key not in node.labels for term in pod.near):
            return False
        asked_for = [
            other
            for other in self.nodes
            if any(all(term.selector.has(p.namespace, p.labels) for term in pod.near) for p in self._pods_of(other))
        ]
        if all(any(o.labels.get(t.key) == node.labels[t.key] for o in asked_for) for t in pod.near):
            return True
        begun = any(term.key in other.labels for other in asked_for for term in pod.near)
        return not begun and all(term.selector.has(pod.namespace, pod.labels) for term in pod.near)

    def _away(self, node: Standing, pod: Pod) -> bool:
        for other in self.nodes:
            for present_items in self._pods_of(other):
                for hold, about in ((pod, present_items), (present_items, pod)):
                    for term in hold.away:
                        value = node.labels.get(term.key)
                        together = value is not None and other.labels.get(term.key) == value
                        if together and term.selector.has(about.namespace, about.labels):
                            return False
        return True
