"""The last check of a candidate before it is removed, under its taint, with objects as the API server has them now."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from tenon.disruption.pod_mark import pod_mark
from tenon.kube import object_json, pod_json
from tenon.kube.conditions import is_true
from tenon.kube.pod_disruption_budgets import eviction_refusal
from tenon.kube.structs import Object
from tenon.lifecycle.pdbs import covering


def why_not(
    present: Iterable[Object],
    budgets: Mapping[str, Collection[Object]],
    now: datetime,
    *,
    expected: Collection[str] | None,
) -> str:
    """Return why a graceful command must not remove a node with these pods; empty if it may.

    Args:
        present: the pods on the node.
        budgets: by namespace, its PodDisruptionBudgets.
        now: the current time.
        expected: `pod_mark` of the pods that the command moves; None if other pods are welcome to move too.
    """
    for pod in sorted(present, key=object_json.key):
        if pod_json.is_terminal(pod) or pod_json.is_mirror(pod) or object_json.is_deleting(pod):
            continue
        name = f"pod {object_json.key(pod)}"
        if held := pod_json.protection(pod, now):
            return f"{name}: {held}"
        evicted = not pod_json.tolerates(pod, pod_json.DISRUPTED)  # a drain leaves the others alone
        if evicted and (held := held_by_budget(pod, budgets.get(pod["metadata"].get("namespace") or "", ()))):
            return f"{name}: {held}"
        if expected is not None and pod_json.is_reschedulable(pod) and pod_mark(object_json.uid(pod)) not in expected:
            return f"{name} came after the decision"
    return ""


def held_by_budget(pod: Object, budgets: Collection[Object]) -> str:
    """Return which PodDisruptionBudget allows no eviction of the pod; empty if none forbids it (DIS-13)."""
    found = covering(pod, budgets)
    blocking = (
        object_json.key(budget)
        for budget in found
        if not (budget.get("status") or {}).get("disruptionsAllowed") and not _spared(pod, budget)
    )
    return eviction_refusal([object_json.key(budget) for budget in found], blocking)


def _spared(pod: Object, budget: Mapping[str, Any]) -> bool:
    """Whether the budget lets a pod that is not ready go at any time."""
    policy = (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy")
    return policy == "AlwaysAllow" and not is_true(pod, "Ready")
