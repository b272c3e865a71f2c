"""Deletes the pods of a node whose instance is gone without a grace period, because no kubelet can end them.

Kubernetes' own garbage collection deletes them after the Node object is gone. Deleting them at once lets their
controllers start replacements a minute earlier. Pods of DaemonSets are left to garbage collection, because their
controller would create them on this Node again.
"""

from __future__ import annotations

from collections.abc import Iterable

from activities import loggers
from activities.kubernetes.bounded_concurrency import bounded
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ApiUnreachableError
from activities.kubernetes.event_references import pod_reference
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.resources import PODS
from tenon.kube.conditions import is_true
from tenon.kube.event_reasons import EventReason
from tenon.kube.records import PodRecord
from tenon.kube.structs import Object

log = loggers.NODECLAIM_LIFECYCLE

CONCURRENCY = 20
"""The maximum number of requests in flight for one node."""


def is_dead(node: Object) -> bool:
    """Whether the Node's kubelet has stopped reporting. A Ready Node has a running machine, even if EC2 denies it."""
    return not is_true(node, "Ready")


async def forget_pods(
    kube: Kube, recorder: EventPublisher, node: Object, node_pods: Iterable[PodRecord], why: str = ""
) -> list[PodRecord]:
    """Delete the pods of a dead Node without a grace period. Return those that were deleted.

    Try to evict each pod first, because an eviction marks the pod as disrupted, which Jobs do not count as a failure.
    If a PodDisruptionBudget refuses, delete the pod anyway: it does not run any more, so the budget protects nothing.
    """
    text = f"deleted without a grace period, because the machine of its Node {node['metadata']['name']} is gone"
    text += f": {why}" if why else ""

    async def forget(pod: PodRecord) -> bool:
        namespace, name, uid = pod.pod.namespace, pod.pod.name, pod.uid
        try:
            if not pod.deleting:
                answer = await kube.evict(namespace, name, uid=uid, grace_seconds=0)
                if answer.outcome == "gone":
                    return False
                if answer.outcome == "evicted":
                    await recorder.publish(pod_reference(pod.pod), EventReason.DISRUPTED, text, "Warning")
                    return True
            if not await kube.delete(PODS, name, namespace=namespace, grace_seconds=0, uid=uid):
                return False
        except ApiUnreachableError:
            raise
        except ApiError as error:
            log.warning(
                "The worker failed to delete a pod of a dead Node and leaves it to Kubernetes' garbage collection",
                extra={"pod": pod.key, "error": str(error)},
            )
            return False
        await recorder.publish(pod_reference(pod.pod), EventReason.DISRUPTED, text, "Warning")
        return True

    stranded = [pod for pod in node_pods if not (pod.terminal or pod.daemon or pod.mirror)]
    is_deleted = await bounded(stranded, CONCURRENCY, forget)
    return [pod for pod, deleted in zip(stranded, is_deleted, strict=True) if deleted]
