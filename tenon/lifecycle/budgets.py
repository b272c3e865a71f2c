"""Which PodDisruptionBudgets cover a pod, so that a blocked drain names what blocks it."""

from __future__ import annotations

from collections.abc import Iterable

from tenon.lifecycle import pods
from tenon.lifecycle.pods import Object
from tenon.lifecycle.selectors import selects


def covering(pod: Object, budgets: Iterable[Object]) -> list[Object]:
    """The budgets of the pod's namespace that select it, by name."""
    metadata = pod["metadata"]
    found = [
        budget
        for budget in budgets
        if budget["metadata"].get("namespace") == metadata.get("namespace")
        and selects((budget.get("spec") or {}).get("selector"), metadata.get("labels") or {})
    ]
    return sorted(found, key=pods.key)


def explain(pod: Object, budgets: Iterable[Object], *, by_budget: bool, answer: str) -> str:
    """One sentence on why a pod's eviction was refused.

    Args:
        pod: the pod that stays.
        budgets: the budgets of its namespace.
        by_budget: whether the API server named a budget as the cause.
        answer: what the API server said.
    """
    found = covering(pod, budgets)
    name = pods.key(pod)
    if len(found) > 1:
        names = ", ".join(pods.key(budget) for budget in found)
        return f"pod {name}: PodDisruptionBudgets {names} all select it, so Kubernetes never evicts it"
    if found and by_budget:
        return f"pod {name}: PodDisruptionBudget {pods.key(found[0])} allows no disruption"
    return f"pod {name}: eviction was refused: {answer or 'no reason given'}"
