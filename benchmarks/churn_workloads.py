"""The controllers of workloads in the model cluster: they create and delete the pods that the load asks for."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from benchmarks.churn_load import Change, Job, Rollout, Scale, Workload
from benchmarks.churn_scheduler import READY
from benchmarks.churn_state import ClusterState, PodState
from tenon.kube.decode import decode_pod
from tenon.kube.pod import Pod

ROLLOUT_STEP = 30.0
SURGE = 0.25


class Workloads:
    """Follows the changes of the load."""

    def __init__(self, state: ClusterState, schedule: Callable[[], None]) -> None:
        """``schedule`` is called when a pod was created."""
        self._state = state
        self._schedule = schedule
        self._wanted: dict[str, Scale] = {}
        self._revision: Counter[str] = Counter()
        self._specs: dict[tuple[str, int], Pod] = {}

    def apply(self, change: Change) -> None:
        """Do what a change asks for."""
        if isinstance(change, Job):
            self._create(change.workload, self._new_place(), change.seconds)
        elif isinstance(change, Rollout):
            self._revision[change.workload.name] += 1
            self._roll(change.workload)
        else:
            self._wanted[change.workload.name] = change
            self._scale(change.workload)

    def _scale(self, workload: Workload) -> None:
        wanted = self._wanted[workload.name].replicas
        mine = self._pods_of(workload)
        for _ in range(wanted - len(mine)):
            self._create(workload, self._new_place())
        for state in self._least_needed(mine)[: max(0, len(mine) - wanted)]:
            self._state.delete(state)

    def _roll(self, workload: Workload) -> None:
        """Replace a part of the pods, and go on until none is of an older revision."""
        old = [state for state in self._pods_of(workload) if state.revision < self._revision[workload.name]]
        if not old:
            self._scale(workload)
            return
        part = self._least_needed(old)[: max(1, round(SURGE * self._wanted[workload.name].replicas))]
        for _ in part:
            self._create(workload, self._new_place())
        keys = [state.pod.key for state in part]

        def go_on() -> None:
            for key in keys:
                if key in self._state.pods:
                    self._state.delete(self._state.pods[key])
            self._roll(workload)

        self._state.clock.after(ROLLOUT_STEP + READY, go_on)

    def _pods_of(self, workload: Workload) -> list[PodState]:
        return [state for state in self._state.pods.values() if state.workload is workload]

    def _least_needed(self, states: Sequence[PodState]) -> list[PodState]:
        """Sort pods as the ReplicaSet controller deletes them: pending, then those that share a node, then young."""
        together = Counter(state.node for state in states)
        return sorted(states, key=lambda state: (bool(state.node), -together[state.node], -state.created))

    def _new_place(self) -> int:
        self._state.record.created += 1
        return self._state.record.created

    def _create(self, workload: Workload, place: int, seconds: float = 0.0) -> None:
        revision = self._revision[workload.name]
        if (workload.name, revision) not in self._specs:
            spec = replace(_pod(workload, revision), workload=f"Deployment/{workload.name}")
            self._specs[workload.name, revision] = spec
        pod = self._state.new_pod(self._specs[workload.name, revision], workload.name)
        self._state.add_pending(PodState(pod, workload, place, revision, self._state.clock.now, seconds))
        self._schedule()


def _pod(workload: Workload, revision: int) -> Pod:
    own = {"app": workload.name, "pod-template-hash": str(revision)}
    container = {"name": "main", "image": "pause", "resources": {"requests": dict(workload.requests)}}
    spec: dict[str, Any] = {"containers": [container]}
    if workload.spread:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": workload.spread,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": own},
            }
        ]
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "default", "name": workload.name, "uid": workload.name, "labels": own},
        "spec": spec,
    }
    return decode_pod(json.dumps(manifest).encode()).pod
