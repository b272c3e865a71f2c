"""The default topology spread constraints of kube-scheduler, for pods that state no constraints of their own.

The pods that such a constraint counts are deduced as kube-scheduler does it: from the selectors of the Services that
select the pod, and of the ReplicationController, ReplicaSet or StatefulSet that controls it. Without any selector the
pod is not spread.
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
    """The selector of the pods that count for a pod with these labels; None if no Service or workload selects it.

    Args:
        labels: the pod's.
        services: the selectors of its namespace's Services.
        owner: the selector of the workload that owns it.
    """
    chosen: dict[str, str] = {}
    for selector in services:
        if all(labels.get(key) == value for key, value in selector.items()):
            chosen |= selector
    exact = LabelSelector().also(chosen)
    whole = exact.both(owner) if owner is not None else exact
    return whole if whole.expressions else None


def with_defaults(rules: PodRules, constraints: Iterable[SpreadRule], selector: LabelSelector | None) -> PodRules:
    """The rules of a pod with the default constraints; unchanged if it states its own or ``selector`` is None."""
    if rules.spreads or selector is None:
        return rules
    return replace(rules, spreads=tuple(replace(constraint, selector=selector) for constraint in constraints))
