"""Which pods keep graceful disruption methods away from their node (DIS-13).

The cache asks about candidates, and the last check of a command asks again with pods as the API server has them then.
All kinds of pods count, also those that no other node would run: the drain of the node would wait for a DaemonSet pod
that may not be evicted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from tenon.disruption.commands.pod_mark import pod_mark
from tenon.kube.pod_disruption_budgets import PodDisruptionBudget, eviction_refusal
from tenon.kube.protection import pod_protected_until, pod_protection
from tenon.kube.records import PodRecord


def holder(
    pods: Iterable[tuple[PodRecord, Sequence[PodDisruptionBudget]]], now: datetime, *, after_surge: bool = False
) -> str:
    """Return the first pod that may not be evicted, and why; empty if all may be.

    Args:
        pods: the pods of a node, each with the PodDisruptionBudgets that select it.
        now: the current time.
        after_surge: whether the command has restarted the Deployments that need it.
    """
    held_pods = ((pod, why_held(pod, budgets, now, after_surge=after_surge)) for pod, budgets in pods)
    return next((f"pod {pod.key}: {why}" for pod, why in held_pods if why), "")


def held_until(pods: Iterable[tuple[PodRecord, Sequence[PodDisruptionBudget]]], now: datetime) -> datetime | None:
    """Return when all pods of a node may be evicted, which may be now; None if time alone does not end what holds one.

    ``pods``: as for `holder`.
    """
    latest = now
    for pod, budgets in pods:
        if why_held(pod, budgets, now):
            end = pod_protected_until(pod)
            if end is None or why_held(pod, budgets, end):
                return None
            latest = max(latest, end)
    return latest


def why_held(
    pod: PodRecord, budgets: Sequence[PodDisruptionBudget], now: datetime, *, after_surge: bool = False
) -> str:
    """Return why the pod may not be evicted now; empty if it may be, or if it has ended or is ending.

    Budgets come before a duration in do-not-disrupt, because time alone does not end what they hold.

    Before a command has restarted the Deployments that need it (``after_surge``), the controller of a pod that surges
    is going to move it, which needs no eviction.
    """
    if pod.terminal or pod.deleting or not (pod.do_not_disrupt or budgets):
        return ""  # nothing holds most pods
    protection = pod_protection(pod, now)
    if protection and pod_protected_until(pod) is None:
        return protection
    if pod.stays or (pod.surges and not after_surge):
        return protection  # it is not evicted, so budgets do not matter
    return eviction_refusal(pod, budgets) or protection


def late_pod(pods: Iterable[PodRecord], expected: Collection[str]) -> str:
    """Return which of the pods would move that a command does not move, as a sentence; empty if there is none.

    ``expected``: `pod_mark` of the pods that the command moves.
    """
    late = (pod.key for pod in pods if pod.reschedulable and not pod.deleting and pod_mark(pod.uid) not in expected)
    return next((f"pod {key} came after the decision" for key in late), "")
