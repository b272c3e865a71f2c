"""Finds pods that kube-scheduler has not tried yet although it could not place a replica of them.

kube-scheduler tries one pod after the other, and after a burst of a thousand pods that takes a minute. A pod of the
same ReplicaSet or Job with the same constraints and requests fits nowhere either, so planning does not wait until
kube-scheduler has said so for each of them. A plan fills existing nodes first: it buys nothing for a pod that has room.
"""

from __future__ import annotations

from tenon.kube.pod import Pod
from tenon.kube.records import PodRecord

OWNERS = frozenset({"ReplicaSet", "ReplicationController", "Job"})
"""Controllers whose pods are interchangeable. Those of a StatefulSet have volumes of their own."""


class UntriedPods:
    """The waiting pods of each owner, in groups of replicas: those that were refused, and those not tried yet."""

    def __init__(self) -> None:
        self._groups: dict[str, list[_Replicas]] = {}
        self._group_of: dict[str, tuple[str, _Replicas]] = {}

    def changed(self, key: str, record: PodRecord | None) -> list[PodRecord]:
        """Record a pod's new version, or None if it is gone.

        Returns:
            The other pods for which `fits_nowhere` changed.
        """
        before = self._remove(key)
        after = self._add(record) if record is not None and _is_replica(record) else None
        turned = [replicas for replicas in {before, after} if replicas is not None and replicas.turned()]
        return [untried for replicas in turned for name, untried in replicas.untried.items() if name != key]

    def fits_nowhere(self, key: str) -> bool:
        """Whether kube-scheduler has not tried this pod, but refused a replica of it that still waits."""
        _, replicas = self._group_of.get(key, ("", None))
        return replicas is not None and key in replicas.untried and bool(replicas.refused)

    def _add(self, record: PodRecord) -> _Replicas:
        groups = self._groups.setdefault(record.owner_uid, [])
        replicas = next((group for group in groups if _interchangeable(group.example, record.pod)), None)
        if replicas is None:
            replicas = _Replicas(record.pod)
            groups.append(replicas)
        if record.untried:
            replicas.untried[record.key] = record
        else:
            replicas.refused.add(record.key)
        self._group_of[record.key] = (record.owner_uid, replicas)
        return replicas

    def _remove(self, key: str) -> _Replicas | None:
        owner, replicas = self._group_of.pop(key, ("", None))
        if replicas is None:
            return None
        replicas.untried.pop(key, None)
        replicas.refused.discard(key)
        if not replicas.untried and not replicas.refused:
            groups = self._groups[owner]
            groups.remove(replicas)
            if not groups:
                del self._groups[owner]
        return replicas


class _Replicas:
    """Interchangeable pods that wait for a node."""

    def __init__(self, example: Pod) -> None:
        self.example = example
        self.untried: dict[str, PodRecord] = {}
        self.refused: set[str] = set()
        self._was_refused = False

    def turned(self) -> bool:
        """Whether there is a refused pod now and there was none at the last call, or the other way round."""
        before, self._was_refused = self._was_refused, bool(self.refused)
        return before != self._was_refused


def _is_replica(record: PodRecord) -> bool:
    return (record.provisionable or (record.untried and record.awaits_node)) and (
        record.owner_kind in OWNERS and not record.volumes
    )


def _interchangeable(first: Pod, other: Pod) -> bool:
    """Whether two pods of one owner differ in nothing that decides where they fit."""
    return (
        first.namespace == other.namespace
        and first.requests == other.requests
        and first.labels == other.labels
        and first.required_terms == other.required_terms
        and first.tolerations == other.tolerations
        and first.host_ports == other.host_ports
        and first.priority == other.priority
        and first.unsupported == other.unsupported
        and first.rules == other.rules
    )
