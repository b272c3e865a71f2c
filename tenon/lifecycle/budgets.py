"""Finds the PodDisruptionBudgets that cover a pod, so that a blocked drain can name them."""

from __future__ import annotations

from collections.abc import Iterable

from tenon.kube import pods
from tenon.kube.selectors import selects
from tenon.kube.structs import Object


def covering(pod: Object, budgets: Iterable[Object]) -> list[Object]:
    """Return the budgets in the pod's namespace that select the pod, sorted by name."""
    metadata = pod["metadata"]
    found = [
        budget
        for budget in budgets
        if budget["metadata"].get("namespace") == metadata.get("namespace")
        and selects((budget.get("spec") or {}).get("selector"), metadata.get("labels") or {})
    ]
    return sorted(found, key=pods.key)


def explain(pod: Object, budgets: Iterable[Object], *, by_budget: bool, answer: str) -> str:
    """Say why the pod's eviction was refused. The text continues a sentence that starts with the pod's name.

    Args:
        pod: the pod that was not evicted.
        budgets: the budgets of its namespace.
        by_budget: whether the API server named a budget as the cause.
        answer: the API server's message.
    """
    found = covering(pod, budgets)
    if len(found) > 1:
        names = ", ".join(pods.key(budget) for budget in found)
        return (
            f"cannot be evicted: PodDisruptionBudgets {names} all select it, "
            "and Kubernetes never evicts a pod with more than one"
        )
    if found and by_budget:
        return f"cannot be evicted: PodDisruptionBudget {pods.key(found[0])} allows 0 more disruptions"
    return f"cannot be evicted: {answer or 'Kubernetes refused and gave no reason'}"
