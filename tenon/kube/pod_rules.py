"""The constraints of a pod relative to other pods, and its preferences: topology spread, affinity, preferred nodes.

This module only defines records, so that pods with the same constraints share one record.
`tenon.scheduling.pods.topology` implements them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from tenon.kube.node_affinity import requirements
from tenon.kube.requirements import Requirements
from tenon.kube.selectors import LabelSelector, label_selector
from tenon.kube.structs import PodAffinity, PodAffinityTerm, PodSpec, Spread


@dataclass(frozen=True, slots=True)
class PodTerm:
    """A term of pod affinity or anti-affinity. Without namespaces or their selector, it uses the pod's namespace."""

    key: str
    selector: LabelSelector | None
    """None selects no pods."""
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


@dataclass(frozen=True, slots=True)
class SpreadRule:
    """A topology spread constraint; ``hard`` means DoNotSchedule."""

    key: str
    max_skew: int
    selector: LabelSelector | None
    hard: bool = True
    min_domains: int = 1
    match_label_keys: tuple[str, ...] = ()
    honor_affinity: bool = True
    honor_taints: bool = False


@dataclass(frozen=True, slots=True)
class PodRules:
    """All constraints of one pod relative to other pods, and its preferences with their weights."""

    spreads: tuple[SpreadRule, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    preferred_nodes: tuple[tuple[int, Requirements], ...] = ()
    preferred_affinity: tuple[tuple[int, PodTerm], ...] = ()
    preferred_anti_affinity: tuple[tuple[int, PodTerm], ...] = ()

    def __bool__(self) -> bool:
        """Whether the pod has any of these constraints."""
        return self is not NO_RULES and self != NO_RULES

    @property
    def terms(self) -> tuple[PodTerm, ...]:
        """All terms of pod affinity and anti-affinity, required terms first."""
        preferred = (*self.preferred_affinity, *self.preferred_anti_affinity)
        return (*self.affinity, *self.anti_affinity, *(term for _, term in preferred))


NO_RULES = PodRules()


def pod_rules(spec: PodSpec) -> PodRules:
    """Read the pod's constraints relative to other pods, and its preferences.

    Raises:
        ValueError: an operator or a bound is unknown or malformed.
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
            (preferred.weight, requirements(preferred.preference.match_expressions or ()))
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
