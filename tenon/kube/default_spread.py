"""The default topology spread constraints of kube-scheduler, for pods without constraints of their own.

As in kube-scheduler, such a constraint counts the pods that match the selectors of the Services that select the pod,
and of the ReplicationController, ReplicaSet or StatefulSet that controls it. Without any selector, the pod is not
spread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tenon.kube.pod_rules import PodRules, SpreadRule
from tenon.kube.selectors import LabelSelector

OWNERS: Mapping[tuple[str, str], str] = {
    ("v1", "ReplicationController"): "replicationcontrollers",
    ("apps/v1", "ReplicaSet"): "replicasets",
    ("apps/v1", "StatefulSet"): "statefulsets",
}
"""The controllers whose selectors count: (apiVersion, kind) to the plural of the resource."""


def deduced_selector(
    labels: Mapping[str, str], services: Iterable[Mapping[str, str]], owner: LabelSelector | None
) -> LabelSelector | None:
    """Return the selector of the pods that count for this pod; None if no Service or workload selects it.

    Args:
        labels: the labels of the pod.
        services: the selectors of the Services in its namespace.
        owner: the selector of the workload that owns it.
    """
    labels_by_key: dict[str, str] = {}
    for selector in services:
        if all(labels.get(key) == value for key, value in selector.items()):
            labels_by_key |= selector
    exact = LabelSelector().also(labels_by_key)
    whole = exact.both(owner) if owner is not None else exact
    return whole if whole.expressions else None


def with_defaults(rules: PodRules, constraints: Iterable[SpreadRule], selector: LabelSelector | None) -> PodRules:
    """Return the pod's rules with the default constraints; unchanged if it has its own or ``selector`` is None."""
    if rules.spreads or selector is None:
        return rules
    return replace(rules, spreads=tuple(replace(constraint, selector=selector) for constraint in constraints))
