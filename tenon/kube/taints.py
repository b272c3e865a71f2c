"""Taints of nodes and the tolerations of pods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tenon.apis import labels
from tenon.kube.structs import Object


@dataclass(frozen=True, slots=True)
class Taint:
    """A node taint; ``effect`` is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    effect: str
    value: str = ""


UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "NoSchedule")
"""The taint that the node lifecycle controller adds to a cordoned node."""
DISRUPTED = Taint(*labels.DISRUPTED_TAINT)
"""The taint of a node that is about to leave."""


@dataclass(frozen=True, slots=True)
class Toleration:
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


def parse_taints(raw: Iterable[Object] | None) -> tuple[Taint, ...]:
    """Parse taints in JSON."""
    return tuple(
        Taint(key=taint["key"], effect=taint.get("effect") or "", value=taint.get("value") or "") for taint in raw or ()
    )


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


def without_taint(taints: Iterable[Object], gone: tuple[str, str]) -> list[Object]:
    """Remove the taint with this key and effect, whatever its value."""
    return [taint for taint in taints if _identity(taint) != gone]


def _identity(taint: Object) -> tuple[str, str]:
    return taint["key"], taint["effect"]
