"""Gives the model cluster what happens to pods: new ones, changed ones, and those that are gone.

The load is the same as the cluster's, so that the difference in price is due to decisions alone. What another
controller causes is no load: a pod that succeeds one which it evicted takes that one's place in the model. And what
depends on its nodes is decided again: which pods a ReplicaSet deletes when it is scaled in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable
from dataclasses import replace

from tenon.kube.owners import STATEFULSET
from tenon.shadow.cluster import ModelCluster
from tenon.shadow.pods import OUTSIDE, LivePod, ModelPod, succession
from tenon.shadow.replica_sets import trade_places

SUCCESSOR_SECONDS = 120.0
"""How long the place of a pod whose node was removed waits for its successor. A StatefulSet creates it afterwards."""


def feed(
    cluster: ModelCluster,
    present: Iterable[LivePod],
    ended_uids: Collection[str],
    now: float,
    evicted_uids: Iterable[str] = (),
) -> int:
    """Change the model's pods. Return how many new pods took the place of another one.

    Args:
        cluster: the model.
        present: the pods that are new or have changed since the last call.
        ended_uids: the UIDs of pods that ended or do not exist any more.
        now: seconds since the epoch.
        evicted_uids: those of them whose Node was being removed when they ended.
    """
    for uid in evicted_uids:
        if (evicted := cluster.pods.get(uid)) is not None:
            evicted.live = replace(evicted.live, node_leaves=True)
    present = list(present)
    trade_places(cluster, _newly_deleted(cluster, present, ended_uids), now)
    arrivals: list[LivePod] = []
    for live in present:
        pod = cluster.pods.get(live.uid)
        if pod is not None:
            _update(cluster, pod, live, now)
        elif not live.ends:
            arrivals.append(live)
    succeeded = _settle(cluster, arrivals, frozenset(ended_uids), now)
    for uid in ended_uids:
        pod = cluster.pods.get(uid)
        if pod is None or uid in cluster.reserved_until:
            continue
        if pod.live.node_leaves and pod.live.record.owner_kind:
            cluster.reserved_until[uid] = now + SUCCESSOR_SECONDS
        else:
            cluster.remove_pod(uid, now)
    for uid in [uid for uid, until in cluster.reserved_until.items() if until <= now]:
        cluster.remove_pod(uid, now)
    return succeeded


def _newly_deleted(cluster: ModelCluster, present: Iterable[LivePod], ended_uids: Iterable[str]) -> set[str]:
    """Return the UIDs of the model's pods that are being deleted since the last call, while their node stays."""
    begin_to_end = {live.uid for live in present if live.ends and not live.node_leaves}.union(ended_uids)
    return {
        uid
        for uid in begin_to_end
        if (pod := cluster.pods.get(uid)) is not None and not pod.live.ends and uid not in cluster.reserved_until
    }


def _update(cluster: ModelCluster, pod: ModelPod, live: LivePod, now: float) -> None:
    live = live.created_at(pod.live.pod.created)
    pod.live = live
    if live.outside != (pod.node == OUTSIDE) and live.record.node_name:
        cluster.place(live.uid, OUTSIDE if live.outside else "", now)
    elif (node := cluster.nodes.get(pod.node)) is not None:
        node.update(live.pod)


def _settle(cluster: ModelCluster, arrivals: Iterable[LivePod], ended_uids: Collection[str], now: float) -> int:
    """Add the new pods, each in the place of a pod that it succeeds, if there is one."""
    arrivals = list(arrivals)
    vacated = _vacated(cluster, {live.record.owner_kind for live in arrivals}, ended_uids) if arrivals else {}
    succeeded = 0
    for live in arrivals:
        cluster.add_pod(live, now)
        places = vacated.get(succession(live))
        if live.outside:
            cluster.place(live.uid, OUTSIDE, now)
        elif places:
            _succeed(cluster, cluster.pods[live.uid], cluster.pods[places.pop()], now)
            succeeded += 1
    return succeeded


def _succeed(cluster: ModelCluster, successor: ModelPod, evicted: ModelPod, now: float) -> None:
    """Put a pod in the place of the one that it succeeds. In the model, nothing happened to the pod and its node."""
    node = cluster.nodes.get(evicted.node)
    quiet = node.quiet if node is not None else 0.0
    successor.live = successor.live.created_at(evicted.live.pod.created)
    cluster.remove_pod(evicted.live.uid, now)
    cluster.place(successor.live.uid, evicted.node, now)
    successor.since = evicted.since
    if node is not None:
        node.quiet = quiet


def _vacated(
    cluster: ModelCluster, owner_kinds: Collection[str], ended_uids: Collection[str]
) -> dict[Hashable, list[str]]:
    """Return the pods that end because their node is being removed, by what their successors have in common."""
    vacated: dict[Hashable, list[str]] = defaultdict(list)
    for uid, pod in cluster.pods.items():
        live = pod.live
        if not live.node_leaves or live.record.owner_kind not in owner_kinds or not live.record.owner_kind:
            continue
        is_over = uid in ended_uids or uid in cluster.reserved_until
        if pod.node != OUTSIDE and (is_over or (live.ends and live.record.owner_kind != STATEFULSET)):
            vacated[succession(live)].append(uid)
    return vacated
