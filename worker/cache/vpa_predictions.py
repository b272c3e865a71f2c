"""The requests that VerticalPodAutoscalers give to pods when they are created again (gate VPAPredictions).

Without the gate, VerticalPodAutoscalers are not read, and pods keep the requests that they have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tenon.kube.pod import Pod
from tenon.kube.records import PodRecord, ValueRecord
from tenon.kube.sharing import share
from tenon.kube.vertical_pod_autoscalers import (
    VerticalPodAutoscaler,
    deciding_vpa,
    larger_requests,
    predicted_requests,
)
from tenon.resources import Resources
from worker.cache.table import Table

Autoscaler = ValueRecord[VerticalPodAutoscaler | None]


class VpaPredictions:
    """The table ``vpas``, and pods with the requests that their VPA will give them."""

    def __init__(self) -> None:
        self.vpas: Table[Autoscaler] = Table(self._vpa_changed)
        self.changes = 0
        """Number of changes of what VPAs do with pods."""
        self._of_target: dict[tuple[str, str], dict[str, Autoscaler]] = {}
        """By namespace and controller (``Kind/name``), and by key."""
        self._predicted: dict[tuple[str, str, bytes], Resources] = {}
        """By namespace, controller and containers. The pods of a controller are alike."""

    def adopt(self, other: VpaPredictions) -> None:
        """Take over another instance's current content."""
        self.vpas.adopt(other.vpas)
        self.changes = other.changes
        self._of_target = {target: vpas.copy() for target, vpas in other._of_target.items()}
        self._predicted = other._predicted.copy()

    def created_again(self, record: PodRecord, pod: Pod) -> Pod:
        """The pod as it comes back after an eviction."""
        predicted = self._requests(record, for_running=False)
        return pod if predicted is None else replace(pod, requests=predicted)

    def waiting(self, record: PodRecord, pod: Pod) -> Pod:
        """The pod with the room for what its VPA makes of it once it runs. It must hold what it requests now, too."""
        predicted = self._requests(record, for_running=True)
        return pod if predicted is None else replace(pod, requests=share(larger_requests(pod.requests, predicted)))

    def _requests(self, record: PodRecord, *, for_running: bool) -> Resources | None:
        """What a pod will request; None if no VPA changes it, or with ``for_running``, if it changes only new pods."""
        if not self._of_target or not record.containers:
            return None
        key = (record.pod.namespace, record.pod.workload)
        vpa = deciding_vpa(self._of_target.get(key, _NONE).values())
        if vpa is None or (for_running and not vpa.changes_running_pods):
            return None
        place = (*key, record.containers)
        if place not in self._predicted:
            self._predicted[place] = share(predicted_requests(record.containers, vpa))
        return self._predicted[place]

    def _vpa_changed(self, key: str, before: Autoscaler | None, after: Autoscaler | None) -> None:
        namespace = key.partition("/")[0]
        for record in (before, after):
            if record is not None and record.value is not None:
                self._of_target.get((namespace, record.value.target), {}).pop(key, None)
        if after is not None and after.value is not None:
            self._of_target.setdefault((namespace, after.value.target), {})[key] = after
        self._of_target = {target: vpas for target, vpas in self._of_target.items() if vpas}
        self._predicted.clear()
        self.changes += 1


_NONE: Mapping[str, Autoscaler] = {}
