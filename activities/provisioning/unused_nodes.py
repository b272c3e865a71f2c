"""Counts, for each group of pods, the nodes that were bought for it and became ready without it.

`tenon.provisioning.purchase_pauses` decides what follows. The provisioner's workflow keeps the counts, so that the next
leader goes on with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from activities import loggers
from activities.cluster_view.interfaces import ClusterView
from tenon.kube.pod import Pod
from tenon.messages.provisioning import PurchasePause
from tenon.provisioning.purchase_pauses import (
    group_of,
    is_open,
    kept,
    supply_version,
    with_pods,
    with_refusal,
    with_unused_node,
    without_ended,
    without_gone,
)
from tenon.rollout.revisions import class_key

log = loggers.PROVISIONER


class UnusedNodes:
    """The groups of waiting pods for which nodes were bought that they did not get."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._pauses: dict[str, PurchasePause] = {}
        self._groups: dict[str, tuple[Pod, str]] = {}
        """By UID of a waiting pod: its version, and the group of that version."""
        self._counted: set[tuple[str, str]] = set()
        """NodeClaim and UID of a pod that it was counted for. A pod whose spec changes does not count it again."""
        self._supply = ""
        """The versions of the NodePools at the last pass. Empty if no group is known."""
        self._adopted = False
        self._waiting: list[Pod] = []
        """The pods that waited at the last pass."""

    def adopt(self, pauses: Iterable[PurchasePause]) -> None:
        """Take over what the workflow has kept from an earlier process, once."""
        if not self._adopted:
            self._adopted = True
            self._pauses = {pause.group: pause for pause in pauses} | self._pauses

    def update(self, waiting: Iterable[Pod]) -> None:
        """Read the NodePools, and forget the groups of which no pod waits: all are placed or gone."""
        self._supply = self._current_supply() if self._pauses else ""
        self._waiting = list(waiting)
        claims = self._view.claim_names()
        self._counted = {pair for pair in self._counted if pair[0] in claims}
        if not self._pauses:
            self._groups.clear()
            return
        groups = {self._group(pod) for pod in self._waiting}
        self._pauses = {
            name: without_ended(without_gone(pause, claims), self._supply)
            for name, pause in self._pauses.items()
            if name in groups
        }
        uids = {pod.uid for pod in self._waiting}
        self._groups = {uid: group for uid, group in self._groups.items() if uid in uids}

    def count_unused_nodes(self, pods: Iterable[Pod], now: datetime) -> dict[str, PurchasePause]:
        """Count the unused nodes of pods for which a plan would buy once more, and return the pauses, by pod key.

        Only such a plan shows that a node was bought in vain. While a pod still fits on its new node, kube-scheduler
        may just be slow.
        """
        waiting = [pod for pod in pods if not pod.node_name and not pod.buffer]
        for pod in waiting:
            self._count(pod, now)
        pauses = ((pod.key, self.pause_of(pod, now)) for pod in waiting)
        return {key: pause for key, pause in pauses if pause is not None}

    def _count(self, pod: Pod, now: datetime) -> None:
        for claim in self._view.claims_for(pod):
            if (claim.name, pod.uid) in self._counted or not claim.batch or claim.initialized_at is None:
                continue
            if not self._view.is_unused(claim, pod):
                continue
            self._counted.add((claim.name, pod.uid))
            group, self._supply = self._group(pod), self._supply or self._current_supply()
            before = self._pauses.get(group)
            after = with_unused_node(before, pod, claim.name, claim.pool, claim.batch, self._supply, now)
            self._pauses[group] = after
            if after != before:
                log.warning(
                    "A node became ready without the pods that it was bought for",
                    extra={"nodeclaim": claim.name, "pods": pod.key, "count": after.nodes},
                )

    def pause_of(self, pod: Pod, now: datetime) -> PurchasePause | None:
        """The open pause of the pod's group; None if nodes may be bought for the pod."""
        if not self._pauses or pod.node_name or pod.buffer:
            return None
        pause = self._pauses.get(self._group(pod))
        return pause if pause is not None and is_open(pause, self._supply, now) else None

    def explained(self, group: str, refusal: str) -> None:
        """Note what kube-scheduler says about a pod of the group."""
        if group in self._pauses:
            self._pauses[group] = with_refusal(self._pauses[group], refusal)

    def kept(self) -> list[PurchasePause]:
        """What the workflow keeps for the next leader, and for operators who ask which pods wait."""
        if not self._pauses:
            return []
        pods: dict[str, list[str]] = {}
        for pod in self._waiting:
            pods.setdefault(self._group(pod), []).append(pod.key)
        pauses = kept(self._pauses.values())
        return [with_pods(pause, pods[pause.group]) if pause.group in pods else pause for pause in pauses]

    def _group(self, pod: Pod) -> str:
        group = self._groups.get(pod.uid)
        if group is None or (group[0] is not pod and group[0] != pod):
            group = self._groups[pod.uid] = (pod, group_of(pod))
        return group[1]

    def _current_supply(self) -> str:
        """The versions of the NodePools and of their EC2NodeClasses: of their specs, as users wrote them."""
        versions = []
        for pool in self._view.node_pools():
            node_class = self._view.node_class(class_key(pool))
            theirs = (node_class.metadata.uid, node_class.metadata.generation) if node_class is not None else ()
            versions.append((pool.metadata.name, pool.metadata.uid, pool.metadata.generation, *theirs))
        return supply_version(versions)
