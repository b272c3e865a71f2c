"""Which nodes a pod accepts, according to its nodeSelector and required node affinity."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence

from tenon.apis import labels
from tenon.kube.requirements import Requirement, Requirements
from tenon.kube.structs import Expression, NodeSelector, PodSpec


def required_terms(spec: PodSpec) -> tuple[tuple[Requirements, ...], str]:
    """Return the alternatives for a new node, each combined with the nodeSelector, and what cannot be planned, if any.

    Raises:
        ValueError: an operator is unknown, or a bound is not a single integer.
    """
    if not spec.node_selector and spec.affinity is None:
        return (), ""
    base = Requirements.of(*(Requirement.new(k, "In", (v,)) for k, v in sorted((spec.node_selector or {}).items())))
    required = _required(spec)
    if required is None or not required.node_selector_terms:
        return ((base,) if base else (), "")
    terms: list[Requirements] = []
    fields = False
    for term in required.node_selector_terms:
        if term.match_fields:
            fields = True
        elif term.match_expressions:
            terms.append(base.with_(requirements(term.match_expressions)))
    if fields:
        return tuple(terms), "its node affinity uses matchFields, and no new node is known to match them"
    if not terms:
        return (), "its required node affinity has only empty terms, which match no node"
    return tuple(terms), ""


def requirements(expressions: Iterable[Expression]) -> Requirements:
    """Combine the expressions of one term."""
    return Requirements.of(*(Requirement.new(sys.intern(e.key), e.operator, e.values or ()) for e in expressions))


def accepts_node(terms: Sequence[Requirements], labels: Mapping[str, str]) -> bool:
    """Whether a pod with these `required_terms` accepts a node with these labels, by the rules of kube-scheduler."""
    return not terms or any(
        all(_holds(requirement, labels.get(key)) for key, requirement in term.items()) for term in terms
    )


def _required(spec: PodSpec) -> NodeSelector | None:
    affinity = spec.affinity.node_affinity if spec.affinity else None
    return affinity.required if affinity else None


def _holds(requirement: Requirement, value: str | None) -> bool:
    return requirement.may_be_absent if value is None else requirement.has(value)


def accepts_pool(terms: Sequence[Requirements], name: str) -> bool:
    """Whether one of the pod's terms allows the NodePool of this name. Reasons leave out the other pools."""
    return not terms or any(term.get(labels.NODEPOOL).has(name) for term in terms)
