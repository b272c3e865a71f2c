"""How advice names PodDisruptionBudgets and what to do about them."""

from __future__ import annotations

from collections.abc import Sequence

from tenon.report.obstacles import HeldPod
from tenon.sentences import first_few, plural

SHOWN = 3


def refusal_text(held_pods: Sequence[HeldPod], budgets: Sequence[str]) -> str:
    """Return which budgets allow no eviction, or why one pod may not be evicted that several budgets select."""
    if len(budgets) == 1:
        return f"PodDisruptionBudget {budgets[0]} allows no eviction"
    if len(held_pods) == 1:
        return f"{held_pods[0].pod.key} may not be evicted: {held_pods[0].why}"
    return f"{budget_names(budgets)} allow no eviction"


def budget_action(budgets: Sequence[str]) -> str:
    """Return what lets pods be evicted again."""
    return f"Let {budget_names(budgets)} allow an eviction: more replicas, or another minAvailable or maxUnavailable"


def budget_names(budgets: Sequence[str]) -> str:
    """Return the first names with their kind."""
    return f"{plural(len(budgets), 'PodDisruptionBudget')} {first_few(budgets, SHOWN)}"
