"""Conditions on labels, and what they say about a label that is known, absent, or still open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
TYPE = "node.kubernetes.io/instance-type"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
POOL = "karpenter.sh/nodepool"
_OLD_NAMES = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.ebs.csi.aws.com/zone": ZONE,
    "beta.kubernetes.io/instance-type": TYPE,
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/os": "kubernetes.io/os",
}


def current(key: str) -> str:
    """The name under which a label is known today."""
    return _OLD_NAMES.get(key, key)


@dataclass(frozen=True, slots=True)
class Condition:
    """One expression over a label; ``operator`` as in manifests and plans."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, value: str | None) -> bool:
        """Whether a label with this value meets it; None for a node without the label."""
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        if value is None or not value.removeprefix("-").isdecimal():
            return False
        low, high = self.between
        return (low is None or int(value) >= low) and (high is None or int(value) <= high)

    @property
    def between(self) -> tuple[int | None, int | None]:
        """The smallest and the largest whole number that meet it, None for no bound."""
        if self.operator not in ("Gt", "Gte", "Lt", "Lte"):
            return None, None
        edge = int(self.values[0])
        if self.operator.startswith("G"):
            return edge + (self.operator == "Gt"), None
        return None, edge - (self.operator == "Lt")


@dataclass(frozen=True, slots=True)
class Open:
    """A label that will have some value, of which only these conditions are known."""

    known_conditions: tuple[Condition, ...] = ()

    def may_be(self, value: str) -> bool:
        """Whether it may turn out to be this."""
        return all(condition.holds(value) for condition in self.known_conditions)

    def bounds(self, more: Iterable[Condition] = ()) -> tuple[int | None, int | None]:
        """The tightest bounds of what is known, with more conditions."""
        pairs = [condition.between for condition in (*self.known_conditions, *more)]
        lows = [low for low, _ in pairs if low is not None]
        highs = [high for _, high in pairs if high is not None]
        return max(lows, default=None), min(highs, default=None)


Value = str | None | Open
"""What a node's label is: a text, absent, or open."""


def surely(condition: Condition, value: Value) -> bool:
    """Whether the condition is met whatever an open label turns out to be."""
    if not isinstance(value, Open):
        return condition.holds(value)
    if condition.operator == "Exists":
        return True
    if condition.operator == "NotIn":
        return not any(value.may_be(text) for text in condition.values)
    (low, high), (least, most) = condition.between, value.bounds()
    if low is None and high is None:
        return False
    enough = low is None or (least is not None and least >= low)
    return enough and (high is None or (most is not None and most <= high))


def maybe(condition: Condition, value: Value) -> bool:
    """Whether the condition may be met."""
    if not isinstance(value, Open):
        return condition.holds(value)
    if condition.operator == "In":
        return any(value.may_be(text) for text in condition.values)
    if condition.operator == "DoesNotExist":
        return False
    least, most = value.bounds((condition,))
    return least is None or most is None or least <= most


def read(expression: Mapping[str, Any], *, of_nodes: bool = True) -> Condition:
    """The condition of a manifest; names of labels of pods are not translated."""
    key = str(expression["key"])
    values = tuple(sorted(map(str, expression.get("values") or ())))
    return Condition(current(key) if of_nodes else key, str(expression["operator"]), values)


@dataclass(frozen=True, slots=True)
class NodeWish:
    """What a pod requires of its node: all of ``always``, and of ``either`` one alternative where there is any."""

    always: tuple[Condition, ...] = ()
    either: tuple[tuple[Condition, ...], ...] | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The labels that matter."""
        parts = (self.always, *(self.either or ()))
        return tuple(sorted({condition.key for part in parts for condition in part}))

    def met(self, labels: Mapping[str, Value], *, open_counts: bool = False) -> bool:
        """Whether a node with these labels meets it: surely, or maybe when ``open_counts``."""
        test = maybe if open_counts else surely

        def all_hold(part: Iterable[Condition]) -> bool:
            return all(test(condition, labels.get(condition.key)) for condition in part)

        return all_hold(self.always) and (self.either is None or any(map(all_hold, self.either)))


def node_wish(spec: Mapping[str, Any]) -> NodeWish:
    """The nodeSelector and the required node affinity of a pod."""
    always = tuple(
        Condition(current(key), "In", (str(value),)) for key, value in sorted((spec.get("nodeSelector") or {}).items())
    )
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return NodeWish(always, None if required is None else alternatives(required))


def alternatives(node_selector: Mapping[str, Any]) -> tuple[tuple[Condition, ...], ...]:
    """The OR-ed terms of a node selector; an empty term matches no node, and fields of nodes are not known here."""
    return tuple(
        tuple(map(read, term["matchExpressions"]))
        for term in node_selector.get("nodeSelectorTerms") or ()
        if term.get("matchExpressions") and not term.get("matchFields")
    )


@dataclass(frozen=True, slots=True)
class PodChoice:
    """Which pods a rule is about; ``namespaces`` None for all, ``conditions`` None for no pod."""

    namespaces: frozenset[str] | None
    conditions: tuple[Condition, ...] | None

    def has(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether a pod is among them."""
        if self.conditions is None or (self.namespaces is not None and namespace not in self.namespaces):
            return False
        return all(condition.holds(labels.get(condition.key)) for condition in self.conditions)


def label_conditions(selector: Mapping[str, Any] | None) -> tuple[Condition, ...] | None:
    """A label selector; an absent one chooses nothing, an empty one everything."""
    if selector is None:
        return None
    exact = [Condition(key, "In", (str(value),)) for key, value in (selector.get("matchLabels") or {}).items()]
    conditions = [read(expression, of_nodes=False) for expression in selector.get("matchExpressions") or ()]
    return tuple(sorted((*exact, *conditions), key=lambda c: (c.key, c.operator, c.values)))
