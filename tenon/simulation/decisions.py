"""From the state of a cluster to a plan, by the same steps as the worker's planner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodeoverlay import NodeOverlay
from tenon.apis.nodepool import NodePool
from tenon.kube.pod import Pod
from tenon.provisioning.overlays import overlaid
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.provisioning.pool_overlap import notes as overlap_notes
from tenon.provisioning.pool_overlap import overlapping
from tenon.provisioning.problem import Cluster, explained, problem_of
from tenon.provisioning.readiness import usable_pools
from tenon.provisioning.solving import solved
from tenon.scheduling.model import InstanceType, Plan, Problem

OVERLAPS_TOLD = 5
"""NodePools that take the same pods as others, of which a note tells."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked beside the cluster: the pods, what can be bought, and what an operator set."""

    pods: Sequence[Pod]
    types: Sequence[InstanceType]
    policy: PlanPolicy = field(default_factory=PlanPolicy)
    overlays: Sequence[NodeOverlay] = ()
    """What is to be believed of prices and capacity."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A plan with what it was made from."""

    problem: Problem
    plan: Plan
    seconds: float
    notes: Sequence[str] = ()
    """What a person should know of how it was decided."""


def decide(cluster: Cluster, question: Question, clock: Callable[[], float]) -> Decision:
    """Plan for the pods. ``clock`` tells how long it took."""
    began = clock()
    sold = [
        (pool, in_zones_of(_class_of(pool, cluster), question.types))
        for pool in usable_pools(cluster.node_pools(), cluster.node_class)
    ]
    seen = overlaid(sold, question.overlays)
    problem = problem_of(cluster, question.pods, seen.sold, question.policy)
    plan = explained(solved(problem), cluster, question.pods)
    seconds = clock() - began
    notes = [f"NodeOverlay {name} is left out: {why}" for name, why in sorted(seen.refused.items())]
    notes += overlap_notes(overlapping([pool for pool, _ in sold]))[:OVERLAPS_TOLD]
    return Decision(problem, plan, seconds, notes)


def _class_of(pool: NodePool, cluster: Cluster) -> EC2NodeClass:
    found = cluster.node_class(pool.spec.template.spec.node_class_ref.name)
    assert found is not None  # usable_pools looked
    return found


def in_zones_of(node_class: EC2NodeClass, types: Sequence[InstanceType]) -> Sequence[InstanceType]:
    """The types with their offerings in the class's subnets; a class that has resolved none may use every zone."""
    zones = {subnet.zone for subnet in node_class.status.subnets}
    if not zones:
        return types
    return [replace(kind, offerings=tuple(o for o in kind.offerings if o.zone in zones)) for kind in types]


def price_of(labels_of_node: Mapping[str, str], types: Sequence[InstanceType]) -> float:
    """What a node costs in an hour by its labels; 0 when the catalogue does not know it."""
    name = labels_of_node.get(labels.INSTANCE_TYPE)
    zone, capacity_type = labels_of_node.get(labels.ZONE), labels_of_node.get(labels.CAPACITY_TYPE)
    for kind in types:
        if kind.name == name:
            for offering in kind.offerings:
                if (offering.zone, offering.capacity_type) == (zone, capacity_type):
                    return offering.price
    return 0.0
