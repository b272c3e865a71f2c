"""Which nodes are replaced because they are unhealthy, and when too many are (SCH-104).

Repair is forceful: it ignores budgets, do-not-disrupt and terminationGracePeriod. An operator who examines a node
keeps repair away by an annotation of its own. Repair also stops when many nodes of a
NodePool are unhealthy at once, because then the cause is probably not the nodes. The same limit holds for nodes that
leave because of EC2's status checks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tenon.apis import labels
from tenon.kube.records import NodeCondition


@dataclass(frozen=True, slots=True)
class RepairPolicy:
    """A node is replaced when a condition has had this status for longer than ``toleration``."""

    condition: str
    status: str
    toleration: timedelta


_HALF_AN_HOUR = timedelta(minutes=30)
POLICIES = (
    RepairPolicy("Ready", "False", _HALF_AN_HOUR),
    RepairPolicy("Ready", "Unknown", _HALF_AN_HOUR),
    # Conditions that the EKS node monitoring agent sets.
    RepairPolicy("AcceleratedHardwareReady", "False", timedelta(minutes=10)),
    RepairPolicy("StorageReady", "False", _HALF_AN_HOUR),
    RepairPolicy("NetworkingReady", "False", _HALF_AN_HOUR),
    RepairPolicy("KernelReady", "False", _HALF_AN_HOUR),
    RepairPolicy("ContainerRuntimeReady", "False", _HALF_AN_HOUR),
)
"""Those of Karpenter's AWS provider. Users cannot change them."""
MAX_UNHEALTHY_PERCENT = 20
BLOCKED = "NodeRepairBlocked"
"""The reason of the event on a node that is not ended because too many are unhealthy."""

_NEVER = datetime.max.replace(tzinfo=UTC)
_TOLERATIONS = {(policy.condition, policy.status): policy.toleration for policy in POLICIES}


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a node is unhealthy, and when to replace it if that lasts (None: never, because the start is unknown)."""

    condition: NodeCondition
    due: datetime | None


def fault_of(conditions: Iterable[NodeCondition]) -> Fault | None:
    """Return the fault for which the node is due first; None if no policy names any of its conditions."""
    faults = [fault for condition in conditions if (fault := _fault(condition)) is not None]
    return min(faults, key=lambda fault: (fault.due or _NEVER, fault.condition.type), default=None)


def _fault(condition: NodeCondition) -> Fault | None:
    toleration = _TOLERATIONS.get((condition.type, condition.status))
    if toleration is None:
        return None
    if not condition.since:
        return Fault(condition, None)
    return Fault(condition, datetime.fromtimestamp(condition.since, UTC) + toleration)


def why_kept(node: Mapping[str, str], claim: Mapping[str, str]) -> str:
    """Why a node is not repaired, by the annotations of its Node and its NodeClaim. Empty if it may be."""
    for kind, on_object in (("Node", node), ("NodeClaim", claim)):
        if on_object.get(labels.DO_NOT_REPAIR) == "true":
            return f"The {kind} has the annotation {labels.DO_NOT_REPAIR}: remove it so that the node is replaced"
    return ""


def max_unhealthy(total: int) -> int:
    """How many of so many nodes may be unhealthy. It rounds up, so the only node of a NodePool may be ended."""
    return -(-total * MAX_UNHEALTHY_PERCENT // 100)


class Breaker:
    """Says for which NodePools no node is ended by force, because too many of its nodes are unhealthy."""

    def __init__(self, nodes: Iterable[tuple[str, bool]]) -> None:
        """``nodes`` are the NodePool of each node of the cluster (empty if none), and whether it is unhealthy."""
        self._total, self._unhealthy = Counter[str](), Counter[str]()
        for pool, unhealthy in nodes:
            self._total[pool] += 1
            self._unhealthy[pool] += unhealthy

    def add(self, pool: str) -> None:
        """Count one more node of the NodePool as unhealthy."""
        self._unhealthy[pool] += 1

    def why_blocked(self, pool: str) -> str:
        """Why no node of the NodePool is ended; empty if they are. Without a NodePool the whole cluster counts."""
        unhealthy, limit = self._counts(pool)
        if unhealthy <= limit:
            return ""
        return f"More than {MAX_UNHEALTHY_PERCENT}% of the nodes of {_named(pool)} are unhealthy"

    def why_waits(self, pool: str) -> str:
        """Why no other node of the NodePool may become unhealthy, or begin to leave, now; empty if one may."""
        unhealthy, limit = self._counts(pool)
        if unhealthy < limit:
            return ""
        return (
            f"{MAX_UNHEALTHY_PERCENT}% of the nodes of {_named(pool)} leave now ({unhealthy}): "
            "this node leaves when one of them is gone"
        )

    def _counts(self, pool: str) -> tuple[int, int]:
        total = self._total[pool] if pool else self._total.total()
        unhealthy = self._unhealthy[pool] if pool else self._unhealthy.total()
        return unhealthy, max_unhealthy(total)


def _named(pool: str) -> str:
    return f"NodePool {pool}" if pool else "the cluster"
