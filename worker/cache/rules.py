"""From a pod's wire form to what it says about other pods and prefers.

Workloads repeat themselves: pods with the same rules share one record, found again by what it holds.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tenon.kube.pod_rules import NO_RULES, PodRules, PodTerm, SpreadRule
from tenon.kube.requirements import Requirement, Requirements
from tenon.kube.selectors import SELECTOR_OPERATORS, LabelSelector
from worker.cache.wire import Expression, PodAffinity, PodAffinityTerm, PodSpec, Selector, Spread


def pod_rules(spec: PodSpec) -> PodRules:
    """What the pod says about other pods, and its preferences.

    Raises:
        ValueError: an operator or a bound in it is unknown or malformed.
    """
    affinity = spec.affinity
    if affinity is None and not spec.topology_spread_constraints:
        return NO_RULES
    nodes = affinity.node_affinity.preferred if affinity and affinity.node_affinity else None
    near = (affinity.pod_affinity if affinity else None) or PodAffinity()
    away = (affinity.pod_anti_affinity if affinity else None) or PodAffinity()
    return PodRules(
        spreads=tuple(_spread(spread) for spread in spec.topology_spread_constraints or ()),
        affinity=tuple(_term(term) for term in near.required or ()),
        anti_affinity=tuple(_term(term) for term in away.required or ()),
        preferred_nodes=tuple(
            (preferred.weight, _requirements(preferred.preference.match_expressions or ()))
            for preferred in nodes or ()
            if preferred.preference.match_expressions and not preferred.preference.match_fields
        ),
        preferred_affinity=tuple((p.weight, _term(p.pod_affinity_term)) for p in near.preferred or ()),
        preferred_anti_affinity=tuple((p.weight, _term(p.pod_affinity_term)) for p in away.preferred or ()),
    )


def _spread(wire: Spread) -> SpreadRule:
    return SpreadRule(
        key=sys.intern(wire.topology_key),
        max_skew=wire.max_skew,
        selector=label_selector(wire.label_selector),
        hard=wire.when_unsatisfiable != "ScheduleAnyway",
        min_domains=wire.min_domains or 1,
        match_label_keys=tuple(wire.match_label_keys or ()),
        honor_affinity=wire.node_affinity_policy != "Ignore",
        honor_taints=wire.node_taints_policy == "Honor",
    )


def _term(wire: PodAffinityTerm) -> PodTerm:
    return PodTerm(
        key=sys.intern(wire.topology_key),
        selector=label_selector(wire.label_selector),
        namespaces=tuple(sorted(wire.namespaces or ())),
        namespace_selector=label_selector(wire.namespace_selector),
    )


def label_selector(wire: Selector | None) -> LabelSelector | None:
    """A label selector; None, which selects nothing, where there is none.

    Raises:
        ValueError: an operator in it is unknown.
    """
    if wire is None:
        return None
    exact = [(key, "In", (value,)) for key, value in sorted((wire.match_labels or {}).items())]
    stated = [(e.key, e.operator, tuple(sorted(e.values or ()))) for e in wire.match_expressions or ()]
    for key, operator, _ in stated:
        if operator not in SELECTOR_OPERATORS:
            allowed = ", ".join(sorted(SELECTOR_OPERATORS))
            raise ValueError(f"label selector on {key}: operator {operator!r} is unknown; use one of {allowed}")
    return LabelSelector(tuple(exact + stated))


def _requirements(expressions: Sequence[Expression]) -> Requirements:
    return Requirements.of(*(Requirement.new(sys.intern(e.key), e.operator, e.values or ()) for e in expressions))
