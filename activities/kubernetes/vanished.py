"""The pods of a machine that is gone: nobody there can end them, so the API forgets them without waiting.

Once the Node object goes, Kubernetes' own garbage collection would do it; doing it at once lets their controllers start
them elsewhere a minute earlier. Pods of DaemonSets are left to that collection, for they would only come back here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from activities.kubernetes.bounded_concurrency import bounded
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ApiUnreachable
from activities.kubernetes.events import EventRecorder
from activities.kubernetes.resources import PODS
from tenon.kube import pods
from tenon.lifecycle.initialization import ready_condition

log = logging.getLogger(__name__)

Object = Mapping[str, Any]
AT_ONCE = 20
"""Requests in flight for one node."""


def is_dead(node: Object) -> bool:
    """Whether the Node's kubelet reports no more; a Node that is Ready has a machine, whatever EC2 says."""
    return ready_condition(node).get("status") != "True"


async def forget_pods(kube: Kube, recorder: EventRecorder, node: Object, found: Iterable[Object]) -> int:
    """Take the pods of a dead Node from the API without grace; how many went.

    Eviction is asked first, for it writes on the pod that it was disrupted, which Jobs do not count as a failure.
    A budget that refuses protects nothing here: the pod runs no more.
    """
    text = f"deleted without grace, for the machine of its Node {node['metadata']['name']} is gone"

    async def forget(pod: Object) -> bool:
        namespace, name, uid = pod["metadata"]["namespace"], pod["metadata"]["name"], pods.uid(pod)
        try:
            if pods.deletion_instant(pod) is None:
                answer = await kube.evict(namespace, name, uid=uid, grace_seconds=0)
                if answer.outcome == "gone":
                    return False
                if answer.outcome == "evicted":
                    await recorder.publish(pod, "Disrupted", text, "Warning")
                    return True
            if not await kube.delete(PODS, name, namespace=namespace, grace_seconds=0, uid=uid):
                return False
        except ApiUnreachable:
            raise
        except ApiError as error:
            log.warning("pod %s of a dead Node is left to Kubernetes' garbage collection: %s", pods.key(pod), error)
            return False
        await recorder.publish(pod, "Disrupted", text, "Warning")
        return True

    stranded = [pod for pod in found if not (pods.is_terminal(pod) or pods.is_daemon(pod) or pods.is_mirror(pod))]
    return sum(await bounded(stranded, AT_ONCE, forget))
