"""Says which rule between pods left a pod without a place, and in which domains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tenon.scheduling.domains.constrained_placement import Placer
from tenon.scheduling.domains.domain_candidates import MAX_CANDIDATES, DomainCandidate
from tenon.scheduling.domains.topology_counts import TopologyCounts
from tenon.scheduling.pods.pod_classes import PodClass
from tenon.scheduling.pods.topology import AreaRules
from tenon.scheduling.pods.topology_groups import HOSTNAME

_DOMAINS_SHOWN = 4


def obstacle(pod_class: PodClass, placer: Placer, counts: TopologyCounts) -> str:
    """The rule between pods that prevents placement, in words that follow the name of a NodePool; may be empty.

    ``pod_class`` is the form without preferences.
    """
    for term in pod_class.near:
        if counts.totals.get(term.group):
            return (
                f"its pod affinity over {HOSTNAME} needs a node with a matching pod, and no such node has room for it"
            )
        if not term.counts_itself:
            return f"its pod affinity over {HOSTNAME} finds no matching pod"
    if pod_class.area is None:
        return ""
    blocked: dict[str, set[str]] = {}
    open_to: set[str] = set()
    choices = [c for c in placer.choices(pod_class) if None not in c.domain_values.values()]
    if placer.has_too_many(pod_class):
        keys = " and ".join(pod_class.area.keys)
        return (
            f"its rules between pods allow more than {MAX_CANDIDATES} combinations of {keys}: spread over fewer labels"
        )
    settled = [c for c in choices if len(c.domain_values) == len(pod_class.area.keys)]
    for choice in settled:
        name, key, rules = _blocking(pod_class, choice, counts)
        if rules is None:
            open_to.add("/".join(value for _, value in choice.name))
        else:
            blocked.setdefault(name, set()).add(choice.domain_values[key] or "")
    if not settled:
        missing_keys = [key for key in pod_class.area.keys if not any(key in c.domain_values for c in choices)]
        keys = " and ".join(missing_keys)
        return f"its rules between pods need label {keys}, and no node that it may use is known to get it"
    if not blocked:
        return ""
    unmatched_rules = {name for name, _, rules in _single(pod_class.area) if _matches_no_pod(rules, counts)}
    clauses = " and ".join(
        f"{rule} rules out {_listed(where)}{', because no matching pod has a node' if rule in unmatched_rules else ''}"
        for rule, where in sorted(blocked.items())
    )
    return f"{clauses}, and in {_listed(open_to)} no node can take it" if open_to else clauses


def single_values(pod_class: PodClass, min_domains: Mapping[str, int]) -> str:
    """The rule between pods that gives a node one value of a label of which minValues need more; may be empty.

    ``min_domains`` are the minValues of a NodePool. Such a NodePool can never take the pod.
    """
    for name, key, _ in _single(pod_class.area or AreaRules()):
        if min_domains.get(key, 1) > 1:
            return (
                f"{name} puts each node into one {key}, but the minValues of the pool ask for "
                f"{min_domains[key]} values of "
                "it: lower them to 1, or set MIN_VALUES_POLICY to BestEffort"
            )
    return ""


def _blocking(
    pod_class: PodClass, choice: DomainCandidate, counts: TopologyCounts
) -> tuple[str, str, AreaRules | None]:
    """The first rule that keeps the pods out of these domains, with its name and key."""
    for name, key, rules in _single(pod_class.area or AreaRules()):
        if not counts.quota(pod_class, choice.domain_values, rules):
            return name, key, rules
    return "", "", None


def _matches_no_pod(rules: AreaRules, counts: TopologyCounts) -> bool:
    return bool(rules.affine) and not any(counts.totals.get(term.group) for term in rules.affine)


def _single(rules: AreaRules) -> Iterator[tuple[str, str, AreaRules]]:
    """Yield each rule by itself, with its name and its topology key."""
    for spread in rules.spreads:
        min_domains_text = f", minDomains {spread.min_domains}" if spread.min_domains > 1 else ""
        name = f"its topology spread over {spread.key} (maxSkew {spread.max_skew}{min_domains_text})"
        yield name, spread.key, AreaRules(spreads=(spread,))
    for term in rules.affine:
        yield f"its pod affinity over {term.key}", term.key, AreaRules(affine=(term,))
    for term in rules.anti:
        yield f"its pod anti-affinity over {term.key}", term.key, AreaRules(anti=(term,))
    for group, key in sorted(rules.repelled, key=lambda pair: pair[1]):
        yield f"the anti-affinity of other pods over {key}", key, AreaRules(repelled=((group, key),))


def _listed(domains: set[str]) -> str:
    shown = sorted(domains)[:_DOMAINS_SHOWN]
    hidden_count = len(domains) - len(shown)
    return ", ".join(shown) + (f" and {hidden_count} others" if hidden_count else "")
