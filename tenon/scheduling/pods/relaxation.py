"""Relaxes preferences: they count as rules at first, and are dropped one by one until the pod fits.

The order is Karpenter's: preferred pod affinity first, heaviest term first, then preferred anti-affinity, preferred
node affinity, and ScheduleAnyway spread. PreferNoSchedule taints are tolerated last. Alternatives of required node
affinity need no step of their own, because every attempt tries all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tenon.kube.pod_rules import PodRules
from tenon.kube.taints import Taint
from tenon.scheduling.pods.pod_classes import PodClass, combined
from tenon.scheduling.pods.topology import Topology


def without_preferences(rules: PodRules) -> PodRules:
    """The rules that remain under PREFERENCE_POLICY=Ignore."""
    return PodRules(
        spreads=tuple(spread for spread in rules.spreads if spread.hard),
        affinity=rules.affinity,
        anti_affinity=rules.anti_affinity,
    )


def forms(pod_class: PodClass, topology: Topology, soft_taints: Iterable[Taint]) -> list[PodClass]:
    """Return the class with all its preferences as rules, followed by forms with fewer and fewer preferences."""
    steps = list(_steps(pod_class.part.rules)) if pod_class.part is not None else []
    pod_classes = [_form(pod_class, rules, topology) for rules in steps] if len(steps) > 1 else [pod_class]
    if any(replace(pod_class, strict=True).untolerated((taint,)) for taint in soft_taints):
        strict = [replace(form, strict=True, base=pod_class.origin) for form in pod_classes]
        pod_classes = [*strict, pod_classes[-1]]
    return pod_classes


def _steps(rules: PodRules) -> Iterator[PodRules]:
    rules = PodRules(
        rules.spreads,
        rules.affinity,
        rules.anti_affinity,
        tuple(sorted(rules.preferred_nodes, key=lambda pair: -pair[0])),
        tuple(sorted(rules.preferred_affinity, key=lambda pair: -pair[0])),
        tuple(sorted(rules.preferred_anti_affinity, key=lambda pair: -pair[0])),
    )
    yield rules
    while (relaxed := _relaxed(rules)) is not None:
        rules = relaxed
        yield rules


def _relaxed(rules: PodRules) -> PodRules | None:
    """The rules with one preference fewer; None if no preference is left."""
    if rules.preferred_affinity:
        return replace(rules, preferred_affinity=rules.preferred_affinity[1:])
    if rules.preferred_anti_affinity:
        return replace(rules, preferred_anti_affinity=rules.preferred_anti_affinity[1:])
    if rules.preferred_nodes:
        return replace(rules, preferred_nodes=rules.preferred_nodes[1:])
    soft = next((spread for spread in rules.spreads if not spread.hard), None)
    if soft is None:
        return None
    spreads = list(rules.spreads)
    spreads.remove(soft)
    return replace(rules, spreads=tuple(spreads))


def _form(pod_class: PodClass, rules: PodRules, topology: Topology) -> PodClass:
    """The class under these rules. Preferences count as required."""
    assert pod_class.part is not None
    strict = PodRules(
        rules.spreads,
        (*rules.affinity, *(term for _, term in rules.preferred_affinity)),
        (*rules.anti_affinity, *(term for _, term in rules.preferred_anti_affinity)),
    )
    first = pod_class.pods[0]
    host, near, area, daemons = topology.compile(pod_class.part, strict, first.required_terms, first.tolerations)
    terms = combined(pod_class.own_terms, first.volume_terms)
    if rules.preferred_nodes:
        terms = combined(terms, (rules.preferred_nodes[0][1],))
    return replace(pod_class, terms=terms, host=host, near=near, area=area, daemons=daemons, base=pod_class.origin)
