"""The last check of a candidate before it is removed, under its taint, with objects as the API server has them now."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from tenon.disruption.pod_mark import pod_mark
from tenon.kube import pod_json
from tenon.kube.pod_disruption_budgets import eviction_refusal
from tenon.kube.protection import pod_protected
from tenon.kube.structs import Object
from tenon.kube.timestamps import parse_instant
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
    for pod in sorted(present, key=pod_json.key):
        if pod_json.is_terminal(pod) or pod_json.is_mirror(pod) or pod_json.deletion_instant(pod) is not None:
            continue
        name = f"pod {pod_json.key(pod)}"
        started = parse_instant((pod.get("status") or {}).get("startTime"))
        if held := pod_protected(pod["metadata"].get("annotations") or {}, started, now):
            return f"{name}: {held}"
        evicted = not pod_json.tolerates(pod, pod_json.DISRUPTED)  # a drain leaves the others alone
        if evicted and (held := held_by_budget(pod, budgets.get(pod["metadata"].get("namespace") or "", ()))):
            return f"{name}: {held}"
        if expected is not None and pod_json.is_reschedulable(pod) and pod_mark(pod_json.uid(pod)) not in expected:
            return f"{name} came after the decision"
    return ""


def held_by_budget(pod: Object, budgets: Collection[Object]) -> str:
    """Return which PodDisruptionBudget allows no eviction of the pod; empty if none forbids it (DIS-13)."""
    found = covering(pod, budgets)
    blocking = (
        pod_json.key(budget)
        for budget in found
        if not (budget.get("status") or {}).get("disruptionsAllowed") and not _spared(pod, budget)
    )
    return eviction_refusal([pod_json.key(budget) for budget in found], blocking)


def _spared(pod: Object, budget: Mapping[str, Any]) -> bool:
    """Whether the budget lets a pod that is not ready go at any time."""
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") != "AlwaysAllow":
        return False
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return not any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
