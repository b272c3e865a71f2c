"""Why a pod is on its node, and whether it could be moved away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from tenon.apis import labels
from tenon.disruption.rules.held_pods import why_held
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.pod_disruption_budgets import PodDisruptionBudget
from tenon.kube.records import NodeRecord, PodRecord
from tenon.money import per_hour
from tenon.sentences import counted


def why_here(
    pod: PodRecord,
    node: NodeRecord | None,
    claim: ClaimRecord | None,
    budgets: Sequence[PodDisruptionBudget],
    now: datetime,
) -> Iterator[str]:
    """Yield sentences without a period: what the node is, who placed the pod there, and what holds it there.

    Args:
        pod: a pod with a node.
        node: its Node, if it exists.
        claim: the NodeClaim of the Node, if Tenon has one.
        budgets: the PodDisruptionBudgets that select the pod.
        now: the current time.
    """
    yield f"It is on Node {pod.node_name}{_kind(node)}"
    if pod.terminal:
        yield f"It has ended (phase {pod.phase}) and uses nothing there"
        return
    if pod.daemon:
        yield "A DaemonSet placed it there, and every such node has one"
        return
    if pod.mirror:
        yield "The kubelet of the node runs it from a file (a mirror pod)"
        return
    if claim is not None:
        yield from _bought(pod, claim)
    elif pool := node.labels.get(labels.NODEPOOL) if node is not None else None:
        yield f"The node belongs to NodePool {pool}, but no NodeClaim says for which pods it was launched"
    else:
        yield "The node has no NodeClaim: Tenon did not launch it and does not remove it"
    if pod.deleting:
        yield "It is being deleted"
    elif protection := why_held(pod, budgets, now, after_surge=True):
        yield f"It may not be evicted now, so its node is not disrupted: {protection}"
    else:
        yield "It may be evicted: nothing protects it"


def _kind(node: NodeRecord | None) -> str:
    if node is None:
        return ", which is gone"
    facts = (node.labels.get(key) for key in (labels.INSTANCE_TYPE, labels.CAPACITY_TYPE, labels.ZONE))
    text = ", ".join(filter(None, facts))
    return f" ({text})" if text else ""


def _bought(pod: PodRecord, claim: ClaimRecord) -> Iterator[str]:
    price = f" at {per_hour(claim.launch_price)}" if claim.launch_price is not None else ""
    planned = {planned_pod.uid for planned_pod in claim.planned_pods}
    if pod.uid not in planned:
        yield (
            f"kube-scheduler placed it on NodeClaim {claim.name} of NodePool {claim.pool}, which was bought{price} for "
            f"{counted(len(planned), 'other pod')}"
        )
        return
    others = len(planned) - 1
    more = f" and {counted(others, 'other pod')}" if others else ""
    yield f"Tenon bought NodeClaim {claim.name} of NodePool {claim.pool}{price} for it{more}"
    yield from filter(None, claim.annotations.get(labels.EXPLANATION, "").splitlines()[1:])
