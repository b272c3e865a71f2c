"""Pods that must find another place, because their node is on its way out.

They are planned together with pods that wait, so that their new node starts while the old one is drained. A pod that
may not be moved, by its annotation or by a budget that never lets a pod go, gets no second place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tenon.apis import labels
from tenon.scheduling.pod_rules import LabelSelector
from worker.cache.budgets import Budget
from worker.cache.records import NodeRecord, ObjectRecord, PodRecord, ValueRecord
from worker.cache.table import Table


def leaving(node: NodeRecord | None, claim: ObjectRecord | None) -> bool:
    """Whether a node is on its way out: asked to be deleted, or tainted for disruption."""
    if claim is not None and claim.deleting:
        return True
    return node is not None and (node.deleting or any((t.key, t.effect) == labels.DISRUPTED_TAINT for t in node.taints))


class Moving:
    """The table ``budgets``, and who must move."""

    def __init__(self, find_leaving: Callable[[], frozenset[str]]) -> None:
        """``find_leaving`` gives the names of the nodes on their way out; it is asked anew after `nodes_changed`."""
        self.budgets: Table[ValueRecord[Budget]] = Table(lambda _key, _before, _after: self._budgets_changed())
        self._find_leaving = find_leaving
        self._leaving: frozenset[str] | None = None
        self._holding: dict[str, list[LabelSelector]] | None = None

    def nodes_changed(self) -> None:
        """A Node or NodeClaim is not what it was."""
        self._leaving = None

    def nodes(self) -> frozenset[str]:
        """The nodes on their way out."""
        if self._leaving is None:
            self._leaving = self._find_leaving()
        return self._leaving

    def has_to(self, pod: PodRecord) -> bool:
        """Whether the pod must find another place."""
        return (
            pod.node_name in self.nodes()
            and pod.reschedulable
            and pod.do_not_disrupt != "true"
            and not any(selector.matches(pod.pod.labels) for selector in self._holding_in(pod.pod.namespace))
        )

    def _holding_in(self, namespace: str) -> Sequence[LabelSelector]:
        if self._holding is None:
            self._holding = {}
            for record in self.budgets:
                if record.value.never and record.value.selector is not None:
                    self._holding.setdefault(record.value.namespace, []).append(record.value.selector)
        return self._holding.get(namespace, ())

    def _budgets_changed(self) -> None:
        self._holding = None
