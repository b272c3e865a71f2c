"""Label selectors and node selector terms, matched as Kubernetes matches them."""

from __future__ import annotations

from collections.abc import Mapping

from tenon.kube.pods import Object


def selects(selector: Object | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector matches; no selector matches nothing, an empty one everything."""
    if selector is None:
        return False
    exact = selector.get("matchLabels") or {}
    if any(labels.get(name) != value for name, value in exact.items()):
        return False
    return all(_holds(expression, labels) for expression in selector.get("matchExpressions") or ())


def admits_node(pod: Object, node_name: str, labels: Mapping[str, str]) -> bool:
    """Whether the pod's nodeSelector and required node affinity allow a node of this name with these labels."""
    spec = pod.get("spec") or {}
    if any(labels.get(name) != value for name, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(_term_holds(term, node_name, labels) for term in required.get("nodeSelectorTerms") or ())


def _term_holds(term: Object, node_name: str, labels: Mapping[str, str]) -> bool:
    expressions = term.get("matchExpressions") or ()
    fields = term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    named = {"metadata.name": node_name}
    return all(_holds(one, labels) for one in expressions) and all(_holds(one, named) for one in fields)


def _holds(expression: Object, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression["key"])
    values = expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            return _compares(operator, value, values[0] if values else "")
        case _:
            return False


def _compares(operator: str, value: str | None, bound: str) -> bool:
    try:
        left, right = int(value or ""), int(bound)
    except ValueError:
        return False
    return left > right if operator == "Gt" else left < right
