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
    there = [found for found in state.pods_on(node.name) if not found.daemon and not found.mirror]
    if not there:  # a pod that came and went shows that pods can run there
        return state.last_pod_event(node.name) is None and claim.last_pod_event is None
    planned = set(state.bought.pods_of(claim.name).values())
    if any(found.uid in planned or _are_alike(found.pod, pod) for found in there):
        return False
    taken = total(found.pod.requests for found in there if not found.terminal)
    return fits(pod.requests, subtract(claimed(claim, "allocatable"), taken))


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


def _are_alike(one: Pod, other: Pod) -> bool:
    if one.namespace != other.namespace:
        return False
    return one.workload == other.workload if one.workload or other.workload else one.labels == other.labels
