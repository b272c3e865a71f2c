"""Remembers why pods have no place, because a plan for other pods does not name them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from tenon.kube.pod import Pod
from tenon.kube.pool_reasons import NoPlace
from tenon.messages.provisioning import PendingPods
from tenon.provisioning.pending_pods import without_place


class UnplacedPods:
    """The pods for which no node is bought, by UID."""

    def __init__(self) -> None:
        self._reasons: dict[str, tuple[str, NoPlace]] = {}

    def planned(self, pods: Iterable[Pod], unschedulable: Mapping[str, NoPlace], elsewhere: Collection[str]) -> None:
        """Record a plan for these pods.

        Args:
            pods: the pods of the plan.
            unschedulable: why some of them have no place, by their key.
            elsewhere: the keys of those that the provisioner lists with the time until which they wait.
        """
        for pod in pods:
            is_waiting = pod.key in unschedulable and pod.key not in elsewhere
            if is_waiting and not pod.buffer and not pod.node_name:
                self._reasons[pod.uid] = (pod.key, unschedulable[pod.key])
            else:
                self._reasons.pop(pod.uid, None)

    def report(self, pending: Iterable[Pod]) -> list[PendingPods]:
        """Return those that are still pending, in groups."""
        if not self._reasons:
            return []
        uids = {pod.uid for pod in pending}
        self._reasons = {uid: reason for uid, reason in self._reasons.items() if uid in uids}
        return without_place(dict(self._reasons.values()))
