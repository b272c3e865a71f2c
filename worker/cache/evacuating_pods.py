"""Pods that must move because their node is leaving.

They are planned together with pending pods, so that the replacement starts while the old node drains. A pod that may
not be moved, because its annotation holds now or PodDisruptionBudgets never allow an eviction, gets no second place.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from tenon.kube.claim_record import ClaimRecord
from tenon.kube.pod_disruption_budgets import PodDisruptionBudget, never_evicted, selecting
from tenon.kube.protection import pod_protection
from tenon.kube.records import NodeRecord, PodRecord, ValueRecord
from tenon.kube.timestamps import clock_instant
from worker.cache.table import Table


def leaving(node: NodeRecord | None, claim: ClaimRecord | None) -> bool:
    """Whether a node is leaving: its deletion has been requested.

    The disruption taint alone does not mean that. A node that Tenon removes is deleted a moment after it is tainted,
    and a taint without a deletion was left over or set by another client (DIS-66).
    """
    return (claim is not None and claim.deleting) or (node is not None and node.deleting)


class EvacuatingPods:
    """The table ``pdbs``, and which pods must move."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock`` returns seconds since the epoch."""
        self._clock = clock
        self.pdbs: Table[ValueRecord[PodDisruptionBudget]] = Table(lambda _, *change: self._pdb_changed(*change))
        self.pdb_changes = 0
        """Number of changes of PodDisruptionBudgets."""
        self.evictions_allowed = 0
        """How often a PodDisruptionBudget may have begun to allow evictions, because it changed or was deleted."""
        self._leaving: set[str] = set()
        self._candidates: set[str] = set()
        self._by_namespace: dict[str, list[PodDisruptionBudget]] | None = None

    def adopt(self, other: EvacuatingPods) -> None:
        """Take over another instance's current content. From now on this instance does not see changes."""
        self.pdbs.adopt(other.pdbs)
        self.pdb_changes = other.pdb_changes
        self._leaving = other._leaving.copy()
        self._candidates = other._candidates.copy()

    def set_leaving(self, node: str, *, leaves: bool) -> None:
        """Record whether a node (by name) is leaving."""
        if leaves:
            self._leaving.add(node)
        else:
            self._leaving.discard(node)

    def set_candidate(self, node: str, *, of_command: bool) -> None:
        """Record whether an open disruption command prepares to remove a node (by name)."""
        if of_command:
            self._candidates.add(node)
        else:
            self._candidates.discard(node)

    def nodes(self) -> Set[str]:
        """The names of the nodes that are leaving."""
        return self._leaving

    def nodes_to_leave(self) -> Set[str]:
        """The names of the nodes that are leaving, and of those that an open disruption command prepares to remove."""
        return self._leaving | self._candidates

    def keeps_place(self, pod: PodRecord) -> bool:
        """Whether a NodeClaim that was created for this running pod keeps room for it."""
        return self.must_move(pod) or (pod.node_name in self._candidates and pod.reschedulable)

    def must_move(self, pod: PodRecord) -> bool:
        """Whether the pod must move to another node."""
        return (
            pod.node_name in self._leaving
            and pod.reschedulable
            and not (pod.do_not_disrupt and pod_protection(pod, clock_instant(self._clock())))
            and not never_evicted(pod, self.budgets_of(pod))
        )

    def budgets_of(self, pod: PodRecord) -> list[PodDisruptionBudget]:
        """The PodDisruptionBudgets that select the pod."""
        if self._by_namespace is None:
            self._by_namespace = {}
            for record in self.pdbs:
                self._by_namespace.setdefault(record.value.namespace, []).append(record.value)
        return selecting(pod.pod, self._by_namespace.get(pod.pod.namespace, ()))

    def _pdb_changed(
        self, before: ValueRecord[PodDisruptionBudget] | None, after: ValueRecord[PodDisruptionBudget] | None
    ) -> None:
        self._by_namespace = None
        self.pdb_changes += 1
        if before is not None and (after is None or not after.value.blocks):
            self.evictions_allowed += 1
