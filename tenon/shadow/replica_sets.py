"""Which pods a ReplicaSet deletes when it is scaled in, if its pods were on the nodes of the model.

Kubernetes chooses them by the nodes that they are on, and those differ in the model. Without this, pods would leave the
model's nodes at random, and its nodes would stay emptier, and cost more, than Tenon's.
The order is that of ReplicaSets in kube-controller-manager (``ActivePodsWithRanks``), as far as the model knows it.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable

from tenon.shadow.cluster import ModelCluster
from tenon.shadow.pods import OUTSIDE, WAITS, ModelPod, succession

OWNER_KIND = "ReplicaSet"


def trade_places(cluster: ModelCluster, deleted: Collection[str], now: float) -> None:
    """Let pods that ReplicaSets delete trade places in the model with those that would be deleted there.

    Args:
        cluster: the model. All pods that are being deleted already are marked so.
        deleted: the UIDs of pods of which it was not known before that they are deleted.
        now: seconds since the epoch.
    """
    deleted_sets: dict[Hashable, list[str]] = defaultdict(list)
    for uid in deleted:
        if _is_chosen(cluster.pods[uid]):
            deleted_sets[succession(cluster.pods[uid].live)].append(uid)
    if not deleted_sets:
        return
    workloads = {_workload(cluster.pods[uid]) for uids in deleted_sets.values() for uid in uids}
    pods_of: dict[Hashable, list[ModelPod]] = defaultdict(list)
    neighbours: Counter[Hashable] = Counter()
    for uid, pod in cluster.pods.items():
        is_active = uid in deleted or not (pod.live.ends or uid in cluster.reserved_until)
        if is_active and _is_chosen(pod) and _workload(pod) in workloads:
            pods_of[succession(pod.live)].append(pod)
            neighbours[_on_node(pod)] += 1
    for key, uids in deleted_sets.items():
        order = sorted(pods_of[key], key=lambda pod: _rank(cluster, pod, neighbours[_on_node(pod)], now))
        first_uids = {pod.live.uid for pod in order[: len(uids)]}
        _trade(cluster, [uid for uid in uids if uid not in first_uids], first_uids.difference(uids), now)


def _is_chosen(pod: ModelPod) -> bool:
    """Whether its ReplicaSet deletes it by choice, and by a place that the model decides about."""
    return pod.live.record.owner_kind == OWNER_KIND and pod.node != OUTSIDE and not pod.live.node_leaves


def _workload(pod: ModelPod) -> Hashable:
    """Return what related pods have in common. ReplicaSets of one Deployment are related."""
    return pod.live.pod.namespace, pod.live.pod.workload


def _on_node(pod: ModelPod) -> Hashable:
    return _workload(pod), pod.node


def _rank(cluster: ModelCluster, pod: ModelPod, neighbours: int, now: float) -> tuple[object, ...]:
    """Return the place of a pod in the order of deletion: pods that do not run, then those with many neighbours.

    Of the others the youngest go first, by the logarithm of their age in nanoseconds.
    """
    node = cluster.nodes.get(pod.node)
    runs_since = max(pod.since, node.ready) if node is not None else 0.0
    runs = node is not None and runs_since <= now
    age = math.floor(math.log2(max(1.0, (now - runs_since) * 1e9))) if runs else 0
    return pod.node != WAITS, runs, pod.live.record.scale_in_cost, -neighbours if runs else 0, age, pod.live.uid


def _trade(cluster: ModelCluster, deleted: Iterable[str], staying: Iterable[str], now: float) -> None:
    """Let each deleted pod and one that stays, but would be deleted in the model, trade their places."""
    for uid, other in zip(sorted(deleted), sorted(staying), strict=True):
        places = [(pod.node, pod.since, pod.live.pod.created) for pod in (cluster.pods[uid], cluster.pods[other])]
        quiet = {name: cluster.nodes[name].quiet for name, _, _ in places if name in cluster.nodes}
        for moved, (name, since, created) in zip((other, uid), places, strict=True):
            cluster.pods[moved].live = cluster.pods[moved].live.created_at(created)
            cluster.place(moved, name, now)
            cluster.pods[moved].since = since
        for name, since in quiet.items():
            cluster.nodes[name].quiet = since
