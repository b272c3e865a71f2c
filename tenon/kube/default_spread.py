"""The topology spread of pods that state none, by the constraints that kube-scheduler is configured with.

Whom such a constraint counts is deduced for each pod, as kube-scheduler does: by the selectors of the Services that
choose the pod, and by that of the ReplicationController, ReplicaSet or StatefulSet that owns it. A pod of which nothing
can be deduced is not spread.
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
"""The owners whose selectors count, by apiVersion and kind: the plural that they are kept by."""


def deduced_selector(
    labels: Mapping[str, str], services: Iterable[Mapping[str, str]], owner: LabelSelector | None
) -> LabelSelector | None:
    """The pods that count for one with these labels; None when nothing is known of it.

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
    """What a pod says, the constraints included; unchanged when it states its own, or nothing is known of it."""
    if rules.spreads or selector is None:
        return rules
    return replace(rules, spreads=tuple(replace(constraint, selector=selector) for constraint in constraints))
