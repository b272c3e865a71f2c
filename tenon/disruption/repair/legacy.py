"""Which nodes are unhealthy for node repair as in Karpenter 1.14, with LEGACY_NODE_REPAIR (SCH-104, N15-144).

It is forceful: it ignores budgets, do-not-disrupt and terminationGracePeriod. An operator who examines a node keeps it
away by an annotation of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tenon.kube.records import NodeCondition
from tenon.kube.timestamps import clock_instant

_HALF_AN_HOUR = timedelta(minutes=30)
TOLERATIONS = {
    ("Ready", "False"): _HALF_AN_HOUR,
    ("Ready", "Unknown"): _HALF_AN_HOUR,
    # Conditions that the EKS node monitoring agent sets.
    ("AcceleratedHardwareReady", "False"): timedelta(minutes=10),
    ("StorageReady", "False"): _HALF_AN_HOUR,
    ("NetworkingReady", "False"): _HALF_AN_HOUR,
    ("KernelReady", "False"): _HALF_AN_HOUR,
    ("ContainerRuntimeReady", "False"): _HALF_AN_HOUR,
}
"""How long each condition may have each status. Those of Karpenter's AWS provider, whatever the reason is."""
_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LegacyFault:
    """Why a node is unhealthy, and when to replace it if that lasts (None: never, because the start is unknown)."""

    condition: NodeCondition
    due: datetime | None


def fault_of(conditions: Iterable[NodeCondition]) -> LegacyFault | None:
    """Return the fault for which the node is due first; None if no policy names any of its conditions."""
    faults = [fault for condition in conditions if (fault := _fault(condition)) is not None]
    return min(faults, key=lambda fault: (fault.due or _NEVER, fault.condition.type), default=None)


def _fault(condition: NodeCondition) -> LegacyFault | None:
    toleration = TOLERATIONS.get((condition.type, condition.status))
    if toleration is None:
        return None
    if not condition.since:
        return LegacyFault(condition, None)
    return LegacyFault(condition, clock_instant(condition.since) + toleration)
