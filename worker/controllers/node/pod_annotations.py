"""Tells the owners of pods which of their annotations for disruption cannot be read, as soon as the pods run.

Otherwise they would hear of it when the pod is evicted, which the annotation was to prevent.
"""

from __future__ import annotations

from collections.abc import Sequence

from activities.kubernetes.event_references import pod_reference
from activities.kubernetes.events import EventPublisher
from tenon.kube.pod_annotations import annotation_mistakes
from worker.cache.changes import Change, Topic
from worker.cache.cluster import ClusterCache
from worker.controllers.base import Controller

AT_ONCE = 100
"""Nodes whose pods are looked at in one reconcile, so that none is long."""


class PodAnnotationsController(Controller):
    """Publishes an event on each pod of the cluster's own nodes with an annotation that cannot be read."""

    name = "pod.annotations"
    object_field = "node"
    topics = (Topic.NODE_PODS,)
    interval = 10.0

    def __init__(self, recorder: EventPublisher, cache: ClusterCache, *, deletion_costs_managed: bool = False) -> None:
        """``deletion_costs_managed``: the feature gate PodDeletionCostManagement is on."""
        super().__init__(cache)
        self._recorder = recorder
        self._deletion_costs_managed = deletion_costs_managed
        self._waiting: dict[str, None] = {}
        """By name: Nodes to look at, those that have waited longest first."""

    def initial(self) -> Sequence[Change]:
        """All Nodes."""
        return [(Topic.NODE_PODS, node.name) for node in self._cache.nodes]

    async def reconcile(self, changes: Sequence[Change]) -> float | None:
        """Look at the pods of some Nodes."""
        nodes = list(self._waiting | dict.fromkeys(node for _, node in changes))
        self._waiting = dict.fromkeys(nodes[AT_ONCE:])
        for name in nodes[:AT_ONCE]:
            await self.isolate(name, self._look(name))
        return 0.0 if self._waiting else None

    async def _look(self, name: str) -> None:
        node = self._cache.nodes.get(name)
        if node is None or self._cache.claim_of(node) is None:
            return
        for pod in self._cache.pods_on(name):
            if pod.terminal or pod.deleting:
                continue
            for reason, text in annotation_mistakes(pod, deletion_costs_managed=self._deletion_costs_managed):
                await self._recorder.publish(pod_reference(pod.pod), reason, text)
