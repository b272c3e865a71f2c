"""What became of a node that was bought for pods: whether they could have had it, and what keeps them away for now."""

from __future__ import annotations

from tenon.apis import labels
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.pod import Pod
from tenon.kube.taints import tolerate
from tenon.resources import fits, subtract, total
from worker.cache.quantities import claimed
from worker.cache.state import ClusterState

_REPORTS_STATE = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    f"{labels.GROUP}/",
    f"{labels.TENON_GROUP}/",
)
"""The prefixes of taints by which Kubernetes and Tenon report that a node is cordoned, unhealthy or leaving."""


def is_unused(state: ClusterState, claim: ClaimRecord, pod: Pod) -> bool:
    """Whether a waiting pod could have had the ready node that was bought for it, as far as Tenon knows.

    A node that got one of its planned pods, or a pod of the same controller, is used. Pods of others take the room if
    the pod does not fit next to them into what the claim states.
    """
    node = state.node_of(claim)
    if node is None or node.annotations.get(labels.STARTUP_CORDON) == "true":  # Tenon itself keeps the pods away
        return False
    node_pods = [
        pod_record for pod_record in state.pods_on(node.name) if not pod_record.daemon and not pod_record.mirror
    ]
    if not node_pods:  # a pod that came and went shows that pods can run there
        return state.last_pod_event(node.name) is None and claim.last_pod_event is None
    planned = set(state.bought.pods_of(claim.name).values())
    if any(pod_record.uid in planned or _are_alike(pod_record.pod, pod) for pod_record in node_pods):
        return False
    requests = total(pod_record.pod.requests for pod_record in node_pods if not pod_record.terminal)
    return fits(pod.requests, subtract(claimed(claim, "allocatable"), requests))


def undeclared_taint(state: ClusterState, claim: ClaimRecord, pod: Pod) -> str:
    """The key of a taint on the claim's Node that the claim does not declare and the pod does not tolerate, or empty.

    An agent such as a CNI sets it on each new node and removes it when it is ready.
    """
    node = state.node_of(claim)
    if node is None:
        return ""
    declared = {(taint.key, taint.effect) for taint in (*claim.taints, *claim.startup_taints)}
    return next(
        (
            taint.key
            for taint in node.taints
            if taint.effect != "PreferNoSchedule"
            and (taint.key, taint.effect) not in declared
            and not taint.key.startswith(_REPORTS_STATE)
            and not tolerate(pod.tolerations, taint)
        ),
        "",
    )


def _are_alike(first: Pod, other: Pod) -> bool:
    if first.namespace != other.namespace:
        return False
    return first.workload == other.workload if first.workload or other.workload else first.labels == other.labels
