"""Which pods keep graceful disruption methods away from their node (DIS-13).

All kinds of pods count, also those that no other node would run: the drain of the node would wait for a DaemonSet pod
that may not be evicted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from tenon.kube.pod_disruption_budgets import PodDisruptionBudget, eviction_refusal
from tenon.kube.pod_json import DISRUPTED
from tenon.kube.protection import protected_for
from tenon.kube.records import PodRecord


def holder(pods: Iterable[tuple[PodRecord, Sequence[PodDisruptionBudget]]], now: datetime) -> str:
    """Return the first pod that may not be evicted, and why; empty if all may be.

    Args:
        pods: the pods of a node, each with the PodDisruptionBudgets that select it.
        now: the current time.
    """
    return next((f"pod {pod.key}: {why}" for pod, budgets in pods if (why := why_held(pod, budgets, now))), "")


def why_held(pod: PodRecord, budgets: Sequence[PodDisruptionBudget], now: datetime) -> str:
    """Return why the pod may not be evicted now; empty if it may be, or if it has ended or is ending.

    A duration in do-not-disrupt counts from when the pod was bound, a moment before its start.
    """
    if pod.terminal or pod.deleting or not (pod.do_not_disrupt or budgets):
        return ""  # nothing holds most pods
    started = datetime.fromtimestamp(pod.bound_at, UTC) if pod.bound_at else None
    if protection := protected_for(pod.do_not_disrupt, started, now):
        return protection
    if pod.mirror or any(toleration.tolerates(DISRUPTED) for toleration in pod.pod.tolerations):
        return ""  # a drain does not evict it
    if pod.surges:
        return ""  # its controller moves it, which needs no eviction
    blocking = (budget.name for budget in budgets if budget.blocks and (pod.ready or not budget.spares_unready))
    return eviction_refusal([budget.name for budget in budgets], blocking)
