"""Sentences about a pod that blocks a drain: what keeps it, and when the block ends if no one acts.

`tenon.lifecycle.remedies` reads the names out of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from tenon.kube.pod_disruption_budgets import PodDisruptionBudget, refused_by
from tenon.kube.records import PodRecord
from tenon.kube.timestamps import format_instant
from tenon.sentences import first_few

_BLOCKED_BY_BUDGET = re.compile(r"pod (?P<pod>\S+) (?P<why>cannot be evicted: PodDisruptionBudgets? .+)")
NAMED_PODS = 3
"""How many pods a sentence about several names."""


def grouped(sentences: Iterable[str]) -> list[str]:
    """Return the sentences, with a single one for all pods that the same PodDisruptionBudgets keep."""
    found: dict[str, list[str]] = {}
    for sentence in sentences:
        match = _BLOCKED_BY_BUDGET.fullmatch(sentence)
        found.setdefault(match["why"] if match else sentence, []).append(match["pod"] if match else "")
    return [_about(why, pods) for why, pods in found.items()]


def _about(why: str, pods: Sequence[str]) -> str:
    if not pods[0]:
        return why
    if len(pods) == 1:
        return f"pod {pods[0]} {why}"
    return f"{len(pods)} pods ({first_few(pods, NAMED_PODS)}) {why}"


def refused_eviction(budgets: Sequence[PodDisruptionBudget], *, by_budget: bool, answer: str) -> str:
    """Say why a pod's eviction was refused. The text continues a sentence that starts with the pod's name.

    Args:
        budgets: the PodDisruptionBudgets that select the pod.
        by_budget: whether the API server named a PodDisruptionBudget as the cause.
        answer: the API server's message.
    """
    several = len(budgets) > 1
    why = (refused_by(budgets) if by_budget or several else "") or answer or "Kubernetes refused and gave no reason"
    return f"cannot be evicted: {why}{', and Kubernetes never evicts a pod with more than one' if several else ''}"


def overdue_termination(pod: PodRecord) -> str:
    """Say what keeps a terminating pod whose grace period is over."""
    due = f"pod {pod.key} "
    if pod.deletion is not None:
        due += f"should have ended by {format_instant(pod.deletion.end)}, "
    if pod.deletion is not None and (finalizers := pod.deletion.finalizers):
        which = "finalizer" if len(finalizers) == 1 else "finalizers"
        return f"{due}but {which} {', '.join(finalizers)} keeps it: its owner must remove it"
    return f"{due}but its kubelet has not reported its end"


def forced_deletion_notice(pod: PodRecord, force_at: datetime | None, now: datetime) -> str:
    """Say when a pod that blocks a drain is deleted, whatever protects it; empty if that time is not in the future."""
    if force_at is None:
        return ""
    instant = force_at - timedelta(seconds=pod.grace_seconds)
    if instant <= now:
        return ""
    return f"; it is deleted at {format_instant(instant)} all the same"
