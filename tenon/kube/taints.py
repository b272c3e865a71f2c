"""Taints of nodes and the tolerations of pods, with the rules of kube-scheduler. Both are decoded as they are here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tenon.apis import labels
from tenon.apis.common import Taint as ApiTaint

Object = Mapping[str, Any]


class Taint(msgspec.Struct, frozen=True, gc=False):
    """A node taint; ``effect`` is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    effect: str
    value: str = ""


UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "NoSchedule")
"""The taint that the node lifecycle controller adds to a cordoned node."""
DISRUPTED = Taint(*labels.DISRUPTED_TAINT)
"""The taint of a node that is about to leave."""


class Toleration(msgspec.Struct, frozen=True, gc=False):
    """A pod toleration in the form of Kubernetes. An empty ``key`` with Exists tolerates everything."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether this toleration tolerates the taint."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        return bool(self.key) and self.value == taint.value


def tolerate(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Whether any of the tolerations tolerates the taint."""
    return any(toleration.tolerates(taint) for toleration in tolerations)


def untolerated(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> Taint | None:
    """Return the first taint that keeps pods with these tolerations away; None if they may run there."""
    for taint in taints:
        if taint.effect != "PreferNoSchedule" and not tolerate(tolerations, taint):
            return taint
    return None


def parse_taints(raw: Iterable[Object] | None) -> tuple[Taint, ...]:
    """Parse taints in JSON."""
    return msgspec.convert(raw or (), tuple[Taint, ...])


def of_model(taints: Iterable[ApiTaint]) -> tuple[Taint, ...]:
    """Convert the taints of a NodePool or NodeClaim that is read as its model."""
    return tuple(Taint(taint.key, taint.effect, taint.value or "") for taint in taints)


def taints_of(node: Object) -> list[Object]:
    """Return the taints of a Node in JSON, to be changed and written back."""
    return list((node.get("spec") or {}).get("taints") or ())


def merged(taints: Sequence[Object], more: Iterable[Object]) -> list[Object]:
    """Add those of ``more`` whose key and effect are new. Taints that are already there keep all their fields."""
    result = list(taints)
    for taint in more:
        if all(_identity(taint) != _identity(other) for other in result):
            result.append(taint)
    return result


def without_taint(taints: Iterable[Object], removed: tuple[str, str]) -> list[Object]:
    """Remove the taint with this key and effect, whatever its value."""
    return [taint for taint in taints if _identity(taint) != removed]


def _identity(taint: Object) -> tuple[str, str]:
    return taint["key"], taint["effect"]
