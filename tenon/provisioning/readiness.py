"""Which NodePools may launch nodes, and what their conditions say if they may not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from tenon.apis import labels
from tenon.apis.common import Condition
from tenon.apis.conditions import READY, VALIDATION_SUCCEEDED, get_condition, set_condition, set_root
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.managed import is_managed
from tenon.apis.nodepool import NODECLASS_READY, READY_DEPENDENTS, NodePool
from tenon.apis.nodeschedule import why_closed
from tenon.apis.teardown import WHY, is_torn_down
from tenon.apis.validation import FieldError, check_nodepool
from tenon.ec2.families.own_kubelet import own_kubelet_errors
from tenon.kube.pool_reasons import Obstacle, ObstacleKind
from tenon.rollout.revisions import class_key

NodeClasses = Callable[[str], EC2NodeClass | None]
"""Returns the EC2NodeClass under a key of `tenon.rollout.revisions.class_key`."""

NOT_FOUND, TERMINATING = "NodeClassNotFound", "NodeClassTerminating"
READINESS_UNKNOWN, NOT_READY = "NodeClassReadinessUnknown", "NodeClassNotReady"
"""Reasons of the condition NodeClassReady. The last one is Tenon's own."""


class Checks(Protocol):
    """What is wrong with a NodePool. The worker's view remembers it, because the rules take a millisecond per pool."""

    def pool_faults(self, pool: NodePool) -> Sequence[FieldError]:
        """All problems of the NodePool itself."""
        ...

    def own_kubelet_faults(self, node_class: EC2NodeClass, annotations: Mapping[str, str]) -> Sequence[str]:
        """Why the NodePool's own kubelet settings do not work with its class."""
        ...


class FreshChecks:
    """Implements `Checks` for callers that keep nothing between their questions."""

    def pool_faults(self, pool: NodePool) -> Sequence[FieldError]:
        """All problems of the NodePool itself."""
        return check_nodepool(pool)

    def own_kubelet_faults(self, node_class: EC2NodeClass, annotations: Mapping[str, str]) -> Sequence[str]:
        """Why the NodePool's own kubelet settings do not work with its class."""
        return own_kubelet_errors(node_class, annotations)


FRESH: Final[Checks] = FreshChecks()


def usable_pools(pools: Sequence[NodePool], node_class: NodeClasses, checks: Checks = FRESH) -> list[NodePool]:
    """Return the NodePools that may launch nodes now: valid, not being deleted, not static, with a ready class."""
    return [pool for pool in pools if not why_unusable(pool, node_class, checks)]


def why_unusable(pool: NodePool, node_class: NodeClasses, checks: Checks = FRESH) -> str:
    """Say why a NodePool launches no nodes for pods; empty if it does."""
    obstacle = what_makes_unusable(pool, node_class, checks)
    return str(obstacle) if obstacle is not None else ""


def what_makes_unusable(pool: NodePool, node_class: NodeClasses, checks: Checks = FRESH) -> Obstacle | None:
    """Return what keeps a NodePool from launching nodes for pods; None if it does."""
    if pool.metadata.deletion_timestamp is not None:
        return Obstacle(ObstacleKind.NODEPOOL, "it is being deleted")
    if is_torn_down(pool.metadata.annotations):
        return Obstacle(ObstacleKind.NODEPOOL, WHY)
    if pool.spec.replicas is not None:
        text = "it is static (spec.replicas is set) and gets no nodes for pods"
        return Obstacle(ObstacleKind.NODEPOOL, text)
    if closed := why_closed(pool.metadata.annotations):
        return Obstacle(ObstacleKind.SCHEDULE, closed)
    faults = checks.pool_faults(pool)
    why = str(faults[0]) if faults else why_class_unready(pool, node_class, checks)
    return Obstacle(ObstacleKind.NODEPOOL, why) if why else None


@dataclass(frozen=True, slots=True)
class UnreadyNodeClass:
    """Why the EC2NodeClass of a NodePool cannot be used."""

    reason: str
    """That of the condition NodeClassReady: Karpenter's, or that of the class's own Ready condition."""
    text: str


def why_class_unready(pool: NodePool, node_class: NodeClasses, checks: Checks = FRESH) -> str:
    """Say why the pool's class cannot be used; empty if it can."""
    fault = class_fault(pool, node_class, checks)
    return fault.text if fault is not None else ""


def class_fault(pool: NodePool, node_class: NodeClasses, checks: Checks = FRESH) -> UnreadyNodeClass | None:
    """Return why the pool's class cannot be used; None if it can."""
    reference = pool.spec.template.spec.node_class_ref
    if not is_managed(reference.model_dump()):
        text = (
            f"nodeClassRef names a {reference.kind} of {reference.group}; Tenon launches only from an EC2NodeClass of "
            f"{labels.AWS_GROUP}"
        )
        return UnreadyNodeClass(NOT_READY, text)
    ec2_class = node_class(class_key(pool))
    if ec2_class is None:
        text = f"EC2NodeClass {reference.name} does not exist: create it, or correct nodeClassRef"
        return UnreadyNodeClass(NOT_FOUND, text)
    if ec2_class.metadata.deletion_timestamp is not None:
        return UnreadyNodeClass(TERMINATING, f"EC2NodeClass {reference.name} is being deleted")
    ready = get_condition(ec2_class.status.conditions, READY)
    if ready is None or ready.status != "True":
        failed = [
            c.message for c in ec2_class.status.conditions if c.status == "False" and c.type != READY and c.message
        ]
        why = "; ".join(failed) or "it has not been resolved yet"
        reason = ready.reason if ready is not None and ready.status == "False" else ""
        return UnreadyNodeClass(reason or READINESS_UNKNOWN, f"EC2NodeClass {reference.name} is not ready: {why}")
    own_faults = "; ".join(checks.own_kubelet_faults(ec2_class, pool.metadata.annotations))
    return UnreadyNodeClass(NOT_READY, own_faults) if own_faults else None


STATIC_IS_OFF = (
    "it is static (spec.replicas is set) and this worker ignores static NodePools: start it with "
    "FEATURE_GATES=StaticCapacity=true, or make a NodePool without replicas"
)


def pool_conditions(
    pool: NodePool, node_class: NodeClasses, now: datetime, checks: Checks = FRESH, *, static_capacity: bool = False
) -> list[Condition]:
    """Return the pool's new conditions. ``static_capacity`` is the feature gate of that name."""
    generation = pool.metadata.generation
    faults = [str(fault) for fault in checks.pool_faults(pool)]
    reason = "NodePoolValidationFailed" if faults else VALIDATION_SUCCEEDED
    if not faults and pool.spec.replicas is not None and not static_capacity:
        faults, reason = [STATIC_IS_OFF], "StaticCapacityDisabled"
    conditions = set_condition(
        pool.status.conditions,
        VALIDATION_SUCCEEDED,
        "False" if faults else "True",
        now=now,
        reason=reason,
        message="; ".join(faults)[:1000],
        observed_generation=generation,
    )
    fault = class_fault(pool, node_class, checks)
    conditions = set_condition(
        conditions,
        NODECLASS_READY,
        "True" if fault is None else "False",
        now=now,
        reason=NODECLASS_READY if fault is None else fault.reason,
        message="" if fault is None else fault.text,
        observed_generation=generation,
    )
    return set_root(conditions, READY_DEPENDENTS, now=now, observed_generation=generation)
