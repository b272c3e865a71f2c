"""Pods that must find another place, because their node is on its way out.

They are planned together with pods that wait, so that their new node starts while the old one is drained. A pod that
may not be moved, by its annotation or by a budget that never lets a pod go, gets no second place.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from tenon.kube.disruption_budgets import Budget
from tenon.kube.records import NodeRecord, ObjectRecord, PodRecord, ValueRecord
from tenon.kube.selectors import LabelSelector
from worker.cache.table import Table


def leaving(node: NodeRecord | None, claim: ObjectRecord | None) -> bool:
    """Whether a node is on its way out: its deletion was asked for.

    The disruption taint alone does not say so: a node that leaves is deleted a moment after its taint, and a taint that
    stays without it was left over or set by somebody else (DIS-66).
    """
    return (claim is not None and claim.deleting) or (node is not None and node.deleting)


class Moving:
    """The table ``budgets``, and who must move."""

    def __init__(self) -> None:
        self.budgets: Table[ValueRecord[Budget]] = Table(lambda _key, _before, _after: self._budgets_changed())
        self._leaving: set[str] = set()
        self._holding: dict[str, list[LabelSelector]] | None = None

    def adopt(self, other: Moving) -> None:
        """Holds what another holds now."""
        self.budgets.adopt(other.budgets)
        self._leaving = other._leaving.copy()

    def note(self, node: str, *, leaves: bool) -> None:
        """Whether a node (by name) is on its way out now."""
        if leaves:
            self._leaving.add(node)
        else:
            self._leaving.discard(node)

    def nodes(self) -> Set[str]:
        """The nodes on their way out."""
        return self._leaving

    def has_to(self, pod: PodRecord) -> bool:
        """Whether the pod must find another place."""
        return (
            pod.node_name in self._leaving
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
