"""What keeps pods that a drain waits for, and when that ends if no one acts: as records, and as their sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from tenon.evolve import evolve
from tenon.kube.pod_disruption_budgets import PodDisruptionBudget, refused_by
from tenon.kube.records import PodRecord
from tenon.kube.timestamps import time_text
from tenon.messages.node_steps import BlockedPods
from tenon.sentences import plural

NAMED_PODS = 3
"""How many pods a record about several names."""
REPORTED_BLOCKAGES = 3
"""How many of the records an event on a Node names."""


def grouped(blocked: Iterable[BlockedPods]) -> list[BlockedPods]:
    """Return the records, with a single one for all pods that the same PodDisruptionBudgets keep."""
    groups: dict[BlockedPods, list[BlockedPods]] = {}
    for blocked_pods in blocked:
        group = evolve(blocked_pods, pods=(), workload="") if blocked_pods.budgets else blocked_pods
        groups.setdefault(group, []).append(blocked_pods)
    return [_about(group, members) for group, members in groups.items()]


def _about(group: BlockedPods, members: Sequence[BlockedPods]) -> BlockedPods:
    pods = list(dict.fromkeys(pod for member in members for pod in member.pods))
    workloads = {member.workload for member in members}
    workload = workloads.pop() if len(workloads) == 1 else ""
    return evolve(group, pods=tuple(pods[:NAMED_PODS]), more=len(pods[NAMED_PODS:]), workload=workload)


def sentence(blocked: BlockedPods) -> str:
    """Say which pods are kept, by what, and when they are deleted all the same."""
    names, more = ", ".join(blocked.pods), f" and {blocked.more} more" if blocked.more else ""
    several = len(blocked.pods) > 1
    subject = f"{len(blocked.pods) + blocked.more} pods ({names}{more})" if several else f"pod {names}"
    end = blocked.deleted_at
    notice = f"; it is deleted at {time_text(end)} all the same" if end is not None else ""
    return f"{subject} {blocked.why}{notice}"


def refused_eviction(
    pod: PodRecord, budgets: Sequence[PodDisruptionBudget], *, by_budget: bool, answer: str
) -> BlockedPods:
    """Return why the pod's eviction was refused, with the budgets that the sentence names.

    Args:
        pod: the pod that was not evicted.
        budgets: the PodDisruptionBudgets that select it.
        by_budget: whether the API server named a PodDisruptionBudget as the cause.
        answer: the API server's message.
    """
    several = len(budgets) > 1
    refusal = refused_by(budgets) if by_budget or several else ""
    why = refusal or answer or "Kubernetes refused and gave no reason"
    more = ", and Kubernetes never evicts a pod with more than one" if several else ""
    names = tuple(sorted(budget.name for budget in budgets)) if refusal else ()
    allowed_from = budgets[0].allows_from if refusal and not several else 0
    return BlockedPods(
        pods=(pod.key,),
        why=f"cannot be evicted: {why}{more}",
        budgets=names,
        allowed_from=allowed_from,
        workload=pod.pod.workload if allowed_from else "",
    )


def overdue_termination(pod: PodRecord) -> BlockedPods:
    """Return what keeps a terminating pod whose grace period is over."""
    deletion = pod.deletion
    due = f"should have ended by {time_text(deletion.end)}, " if deletion is not None else ""
    finalizers = tuple(deletion.finalizers) if deletion is not None else ()
    why = f"{due}but its kubelet has not reported its end"
    if finalizers:
        noun = plural(len(finalizers), "finalizer")
        why = f"{due}but {noun} {', '.join(finalizers)} keeps it: its owner must remove it"
    return BlockedPods(pods=(pod.key,), why=why, finalizers=finalizers)


def deleted_at(pod: PodRecord, force_at: datetime | None, now: datetime) -> datetime | None:
    """Return when a pod that blocks a drain is deleted, whatever protects it; None if not in the future."""
    if force_at is None:
        return None
    remaining = until_deletion(pod, force_at, now)
    return now + remaining if remaining > timedelta() else None


def until_deletion(pod: PodRecord, force_at: datetime, now: datetime) -> timedelta:
    """Return for how long a pod may still stay if its grace period must end by ``force_at``; negative if it is late.

    The instant itself may be outside of the calendar: a user may write any ``force_at``.
    """
    return force_at - now - timedelta(seconds=pod.grace_seconds)
