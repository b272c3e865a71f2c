"""Remembers why pods get no node, because a plan for other pods does not name them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Generic, TypeVar

from tenon.kube.pod import Pod
from tenon.kube.pool_reasons import NoPlace
from tenon.messages.provisioning import PendingPods, ShortageWait
from tenon.provisioning.pending_pods import without_place
from tenon.provisioning.shortage_waits import grouped

Why = TypeVar("Why")


class _PendingPods(Generic[Why]):
    """Pods, by UID, with their key and why they get no node. They are forgotten once they are no longer pending."""

    def __init__(self) -> None:
        self._reasons: dict[str, tuple[str, Why]] = {}

    def _remember(self, pod: Pod, why: Why | None) -> None:
        """Record the latest plan for a pod; None if it is no pod of this kind any more."""
        if why is None or pod.buffer:
            self._reasons.pop(pod.uid, None)
        else:
            self._reasons[pod.uid] = (pod.key, why)

    def _still(self, pending: Iterable[Pod]) -> dict[str, Why]:
        """The reasons of those that are still pending, by key."""
        if not self._reasons:
            return {}
        uids = {pod.uid for pod in pending}
        self._reasons = {uid: reason for uid, reason in self._reasons.items() if uid in uids}
        return dict(self._reasons.values())


class WaitingPods(_PendingPods[ShortageWait]):
    """The pods that wait for cheaper capacity."""

    def planned(self, pods: Iterable[Pod], waits: Mapping[str, ShortageWait]) -> None:
        """Record a plan for these pods. ``waits``: what some of them wait for, by their key."""
        for pod in pods:
            self._remember(pod, waits.get(pod.key))

    def report(self, pending: Iterable[Pod]) -> list[ShortageWait]:
        """Return what pods wait for that are still pending, in groups."""
        return grouped(self._still(pending))


class UnplacedPods(_PendingPods[NoPlace]):
    """The pods for which no node is bought."""

    def planned(self, pods: Iterable[Pod], unschedulable: Mapping[str, NoPlace], elsewhere: Collection[str]) -> None:
        """Record a plan for these pods.

        Args:
            pods: the pods of the plan.
            unschedulable: why some of them have no place, by their key.
            elsewhere: the keys of those that the provisioner lists with the time until which they wait.
        """
        for pod in pods:
            is_listed = pod.key in elsewhere or bool(pod.node_name)
            self._remember(pod, None if is_listed else unschedulable.get(pod.key))

    def report(self, pending: Iterable[Pod]) -> list[PendingPods]:
        """Return those that are still pending, in groups."""
        return without_place(self._still(pending))
