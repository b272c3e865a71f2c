"""When to stop buying nodes for pods that kube-scheduler does not place on the nodes that were bought for them.

A plan may lack a fact that kube-scheduler or the kubelet knows: less allocatable storage, a DaemonSet's anti-affinity,
a volume in use. The new node then stays without the pods, and the next plan would buy the same node again, without end.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from tenon.apis import labels
from tenon.evolve import evolve
from tenon.kube.pod import Pod
from tenon.kube.requirements import Requirements
from tenon.kube.timestamps import time_text
from tenon.messages.provisioning import PurchasePause
from tenon.sentences import counted, plural, shortened

FREE_NODES = 2
"""How many nodes may stay without their pods before the first pause: other pods may have taken the first one's room."""
FIRST_PAUSE = timedelta(minutes=1)
MAX_PAUSE = timedelta(hours=1)
MAX_KEPT = 50
"""How many groups of pods a workflow remembers, those with the latest pauses."""
MAX_NAMED = 3
"""How many pods of a group a workflow remembers by name."""
MAX_REFUSAL = 300
"""How many letters of kube-scheduler's sentence about a group a workflow remembers."""

_OF_ONE_POD = labels.COPIED_TO_PODS | {
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/job-completion-index",
}
"""Labels that the pods of one controller get one by one, although the same nodes can run them."""


def group_of(pod: Pod) -> str:
    """Name what pods have in common that fail alike: their controller, and all that decides where they may run.

    Every process computes the same name. A change of the pods' spec gives another one. Pods without a controller that
    are alike belong together, because their controller may give them other names when it creates them again.
    """
    parts = (
        pod.namespace,
        pod.workload,
        sorted((key, value) for key, value in pod.labels.items() if key not in _OF_ONE_POD),
        sorted(pod.requests.items()),
        _terms(pod.required_terms),
        repr(pod.tolerations),
        repr(pod.host_ports),
        repr(pod.rules),
        _terms(pod.volume_terms),
    )
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]


def _terms(terms: Iterable[Requirements]) -> str:
    return json.dumps([term.to_selectors() for term in terms], sort_keys=True)


def supply_version(versions: Iterable[tuple[str | int | None, ...]]) -> str:
    """Name the versions of all NodePools, each with that of its EC2NodeClass."""
    return hashlib.sha256(json.dumps(sorted(map(str, versions))).encode()).hexdigest()[:20]


def with_unused_node(
    pause: PurchasePause | None, pod: Pod, claim: str, pool: str, batch: int, supply: str, now: datetime
) -> PurchasePause:
    """Count a node that was bought for the pod, became ready, and stayed without it and its like.

    Args:
        pause: what is known of the pod's group; None if nothing is.
        pod: one of the pods that wait.
        claim: the NodeClaim. It counts once.
        pool: its NodePool.
        batch: the batch that it was planned in. The nodes of one batch lead to one pause.
        supply: the current `supply_version`.
        now: the current time.
    """
    if pause is None or pause.supply != supply:
        counted_before = pause.claims if pause is not None else []
        pause = PurchasePause(group=group_of(pod), supply=supply, claims=counted_before)
    if claim in pause.claims:
        return pause
    nodes, pauses, until = pause.nodes + 1, pause.pauses, pause.until
    if nodes >= FREE_NODES and (pauses == 0 or batch > pause.batch):
        until = now + min(FIRST_PAUSE * (1 << min(pauses, 10)), MAX_PAUSE)
        pauses += 1
    claims = [*pause.claims, claim]
    newest = max(batch, pause.batch)
    return evolve(pause, nodes=nodes, claims=claims, pool=pool, batch=newest, pauses=pauses, until=until)


def without_gone(pause: PurchasePause, claims: Collection[str]) -> PurchasePause:
    """Forget the names of counted NodeClaims that no longer exist. Their number stays."""
    open_claims = [name for name in pause.claims if name in claims]
    return pause if len(open_claims) == len(pause.claims) else evolve(pause, claims=open_claims)


def is_open(pause: PurchasePause, supply: str, now: datetime) -> bool:
    """Whether no node is bought for the group now. A change of a NodePool or an EC2NodeClass ends every pause."""
    return pause.until is not None and now < pause.until and pause.supply == supply


def without_ended(pause: PurchasePause, supply: str) -> PurchasePause:
    """Forget the end of a pause that a changed NodePool or EC2NodeClass has ended, so that no list shows it as open."""
    return evolve(pause, until=None) if pause.until is not None and pause.supply != supply else pause


def with_pods(pause: PurchasePause, pods: Collection[str]) -> PurchasePause:
    """Note which pods of the group wait, by key."""
    return evolve(pause, pods=sorted(pods)[:MAX_NAMED], waiting=len(pods))


def with_refusal(pause: PurchasePause, refusal: str) -> PurchasePause:
    """Note what kube-scheduler says about one of the pods. An empty sentence teaches nothing."""
    return evolve(pause, refusal=shortened(refusal, MAX_REFUSAL)) if refusal else pause


def kept(pauses: Iterable[PurchasePause]) -> list[PurchasePause]:
    """Return what a workflow remembers, so that another process goes on with it."""
    latest = sorted(pauses, key=lambda pause: (pause.until is not None, pause.until, pause.nodes, pause.group))
    return latest[-MAX_KEPT:]


def pause_sentence(pause: PurchasePause, refusal: str) -> str:
    """Say on a pod why no node is bought for it. ``refusal``: kube-scheduler's own sentence about the pod."""
    return (
        f"Tenon bought {counted(pause.nodes, 'node')} for this pod and pods like it, and kube-scheduler placed none of "
        f"them there: {_quoted(refusal)}. {_until(pause)}, unless the pod, a NodePool or an EC2NodeClass changes"
    )


def pool_sentence(pause: PurchasePause, pod: str, refusal: str) -> str:
    """Say the same on the NodePool of the newest of these nodes. ``pod``: one of the pods."""
    return (
        f"{counted(pause.nodes, 'node')} became ready without the pods that Tenon bought them for, such as {pod}; "
        f"kube-scheduler about the pod: {_quoted(refusal)}. {_until(pause)}"
    )


def list_sentence(pause: PurchasePause) -> str:
    """Say the same in a list of all pauses, with the names of the pods."""
    return (
        f"Tenon bought {counted(pause.nodes, 'node')} for {named_pods(pause)}, and kube-scheduler placed none of them "
        f"there: {_quoted(pause.refusal)}. {_until(pause)}, unless they, a NodePool or an EC2NodeClass change"
    )


def named_pods(pause: PurchasePause) -> str:
    """Name the pods that wait: 'pods shop/a, shop/b, shop/c and 2 more'."""
    more = pause.waiting - len(pause.pods)
    return f"{plural(pause.waiting, 'pod')} {', '.join(pause.pods)}" + (f" and {more} more" if more > 0 else "")


def existing_node_sentence(node: str, since: datetime, refusal: str) -> str:
    """Say on a pod that it waits although it should fit on an existing node, so that no node is bought for it."""
    return (
        f"Tenon expects that the pod fits on node {node} and buys no node for it, but kube-scheduler has not placed it "
        f"there since {time_text(since)}: {_quoted(refusal)}"
    )


def _until(pause: PurchasePause) -> str:
    assert pause.until is not None
    return f"Tenon buys no more nodes for them until {time_text(pause.until)}"


def _quoted(refusal: str) -> str:
    return (
        f'"{refusal.strip().rstrip(".")}"'
        if refusal.strip()
        else "its reason is in the condition PodScheduled of the pod"
    )
