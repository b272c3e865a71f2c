"""Remembers which pods wait for cheaper capacity, because a plan for other pods does not name them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tenon.kube.pod import Pod
from tenon.messages.provisioning import ShortageWait
from tenon.provisioning.shortage_waits import grouped


class WaitingPods:
    """The pods that wait for cheaper capacity, by UID."""

    def __init__(self) -> None:
        self._waits: dict[str, tuple[str, ShortageWait]] = {}

    def planned(self, pods: Iterable[Pod], waits: Mapping[str, ShortageWait]) -> None:
        """Record a plan for these pods. ``waits``: what some of them wait for, by their key."""
        for pod in pods:
            if pod.key in waits and not pod.buffer:
                self._waits[pod.uid] = (pod.key, waits[pod.key])
            else:
                self._waits.pop(pod.uid, None)

    def report(self, pending: Iterable[Pod]) -> list[ShortageWait]:
        """Return what pods wait for that are still pending, in groups."""
        if not self._waits:
            return []
        uids = {pod.uid for pod in pending}
        self._waits = {uid: waiting for uid, waiting in self._waits.items() if uid in uids}
        return grouped(dict(self._waits.values()))
