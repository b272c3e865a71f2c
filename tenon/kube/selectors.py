"""Label selectors, with the matching rules of Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tenon.kube.structs import Selector

SELECTOR_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A list of (label, operator, values), all of which must match. An empty selector matches everything."""

    expressions: tuple[tuple[str, str, tuple[str, ...]], ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the selector matches these labels."""
        for key, operator, values in self.expressions:
            value = labels.get(key)
            if operator == "In":
                holds = value is not None and value in values
            elif operator == "NotIn":
                holds = value is None or value not in values
            else:
                holds = (value is not None) == (operator == "Exists")
            if not holds:
                return False
        return True

    def also(self, labels: Mapping[str, str]) -> LabelSelector:
        """Return a selector that also requires these labels."""
        return LabelSelector((*self.expressions, *((key, "In", (value,)) for key, value in sorted(labels.items()))))

    def both(self, other: LabelSelector) -> LabelSelector:
        """The intersection of both selectors."""
        return LabelSelector(tuple(dict.fromkeys((*self.expressions, *other.expressions))))


def label_selector(wire: Selector | None) -> LabelSelector | None:
    """Convert a decoded label selector. Without one, the result is None, which selects nothing.

    Raises:
        ValueError: the selector has an unknown operator.
    """
    if wire is None:
        return None
    exact = [(key, "In", (value,)) for key, value in sorted((wire.match_labels or {}).items())]
    expressions = [(e.key, e.operator, tuple(sorted(e.values or ()))) for e in wire.match_expressions or ()]
    for key, operator, _ in expressions:
        if operator not in SELECTOR_OPERATORS:
            allowed = ", ".join(sorted(SELECTOR_OPERATORS))
            raise ValueError(f"label selector on {key}: operator {operator!r} is unknown; use one of {allowed}")
    return LabelSelector(tuple(exact + expressions))
