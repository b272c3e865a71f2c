"""Which pods are on their way to a NodeClaim that was bought for them, so that no other plan places them."""

from __future__ import annotations

from tenon.kube.claim_record import ClaimRecord
from tenon.kube.records import PodRecord
from worker.cache.buying import still_needs
from worker.cache.evacuating_pods import leaving
from worker.cache.state import ClusterState

PLANNED_GRACE_SECONDS = 60.0
"""Seconds after a node's initialization during which its planned pods may still be on their way."""
HELD_SECONDS = 300.0
"""Seconds after a node's initialization during which it does not count as empty while one of its planned pods waits.
kube-scheduler may place the pod late, for example because a CNI has not removed its taint yet. If the node left, the
next plan would buy the same one again.
"""


def planned_places(state: ClusterState, now: float | None = None) -> dict[str, str]:
    """Return the pods that a claim was bought for and that are on their way to it: pod UID -> claim name.

    A pod drops out when it gets a node or is deleted, when its claim is leaving, and one minute after the claim's
    node was initialized, so that a pod that did not get there is planned again. A pod that must move keeps its new
    place until its old node has released it, however long that takes.
    """
    now = state.clock() if now is None else now
    pods = (*state.unbound.values(), *state.pods_to_move())
    return {pod.uid: claim for pod in pods if (claim := _place_of(state, pod, now))}


def awaits_pods(state: ClusterState, claim: ClaimRecord, now: float) -> bool:
    """Whether a pod is on its way to this claim (`planned_places`), or still waits while the node is new."""
    since = claim.initialized_at
    is_new = since is not None and now < since.timestamp() + HELD_SECONDS
    for key, uid in state.bought.pods_of(claim.name).items():
        pod = state.pods.get(key)
        if pod is None or pod.uid != uid:
            continue
        if (is_new and key in state.unbound) or _place_of(state, pod, now) == claim.name:
            return True
    return False


def _place_of(state: ClusterState, pod: PodRecord, now: float) -> str:
    """The first claim, by name, that the pod is on its way to. Empty if there is none."""
    waits = not (pod.node_name or pod.terminal or pod.deleting)
    if not waits and not (pod.node_name and state.moving.keeps_place(pod)):
        return ""
    for name in state.bought.claims_for(pod.uid):
        claim = state.claims.get(name)
        if claim is None or state.bought.pods_of(name).get(pod.key) != pod.uid:
            continue
        if leaving(state.node_of(claim), claim):
            continue
        if _is_early(claim, now) if waits else still_needs(claim, pod):
            return name
    return ""


def _is_early(claim: ClaimRecord, now: float) -> bool:
    """Whether pods that wait may still be on their way to the claim's node."""
    since = claim.initialized_at  # read once, because this runs for every waiting pod
    return not claim.initialized if since is None else now < since.timestamp() + PLANNED_GRACE_SECONDS
