"""Says why no node is bought for pods that did not get the nodes which were bought for them, in kube-scheduler's words.

The cache does not keep kube-scheduler's sentences, because they are long, so each costs a request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from activities import loggers
from activities.cluster_view.interfaces import ClusterView
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.event_references import pod_reference, pool_reference
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.resources import PODS
from activities.provisioning.batching import Batcher
from tenon.kube.conditions import condition
from tenon.kube.event_reasons import EventReason
from tenon.kube.pod import Pod
from tenon.messages.provisioning import PurchasePause
from tenon.provisioning.purchase_pauses import existing_node_sentence, pause_sentence, pool_sentence

log = loggers.PROVISIONER

MAX_REFUSALS_READ = 10
"""For how many groups of pods one plan reads why kube-scheduler refuses them."""


class PauseReporter:
    """Reads kube-scheduler's reasons, and publishes them."""

    def __init__(self, view: ClusterView, kube: Kube, recorder: EventPublisher, batcher: Batcher) -> None:
        self._view = view
        self._kube = kube
        self._recorder = recorder
        self._batcher = batcher

    async def sentences(self, pods: Sequence[Pod], pauses: Mapping[str, PurchasePause]) -> dict[str, str]:
        """By key, why no node is bought for the paused pods. Events on their NodePools say so too.

        Only `MAX_REFUSALS_READ` groups have kube-scheduler's sentence, so that many groups delay no other pod.
        """
        refusals: dict[str, str] = {}
        sentences = {}
        for pod in pods:
            pause = pauses[pod.key]
            if pause.group not in refusals and len(refusals) >= MAX_REFUSALS_READ:
                sentences[pod.key] = pause_sentence(pause, "")
                continue
            if pause.group not in refusals:
                refusals[pause.group] = refusal = await self._refusal_of(pod)
                self._batcher.record_scheduler_reason(pause.group, refusal)
                pool = next((pool for pool in self._view.node_pools() if pool.metadata.name == pause.pool), None)
                if pool is not None:
                    message = pool_sentence(pause, pod.key, refusal)
                    await self._recorder.publish(pool_reference(pool), EventReason.NODES_NOT_USED, message)
            sentences[pod.key] = pause_sentence(pause, refusals[pause.group])
        return sentences

    async def _refusal_of(self, pod: Pod) -> str:
        """What kube-scheduler says about a pod that it cannot place. The cache does not keep it, because it is long."""
        try:
            body = await self._kube.get(PODS, pod.name, pod.namespace)
        except ApiError as error:
            log.info("The pod cannot be read for an event", extra={"pod": pod.key, "error": str(error)})
            return ""
        return str(condition(body or {}, "PodScheduled").get("message") or "")

    async def report_existing_nodes(self, pods: Iterable[Pod]) -> None:
        """Publish an event on each pod that kube-scheduler has left waiting for long although it fits on a node."""
        for pod, node, since in self._batcher.refused_on_nodes(pods):
            message = existing_node_sentence(node, since, await self._refusal_of(pod))
            await self._recorder.publish(pod_reference(pod), EventReason.FAILED_SCHEDULING, message)
