"""From the picture of a cluster to a plan, by the same steps as the worker's planner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodepool import NodePool
from tenon.apis.validation import check_nodepool
from tenon.provisioning.pools import scheduling_pool
from tenon.provisioning.readiness import usable_pools, why_class_unready
from tenon.resources import Resources
from tenon.scheduling.engine import solve
from tenon.scheduling.model import InstanceType, Node, Plan, Pod, Problem


class Cluster(Protocol):
    """What a plan needs of a cluster; the worker's view of its cache has it all."""

    def nodes(self) -> Sequence[Node]:
        """Existing and in-flight capacity."""
        ...

    def daemons(self) -> Sequence[Pod]:
        """One template pod for each DaemonSet."""
        ...

    def node_pools(self) -> Sequence[NodePool]:
        """The NodePools that can be read."""
        ...

    def node_class(self, name: str) -> EC2NodeClass | None:
        """An EC2NodeClass that can be read."""
        ...

    def pool_usage(self, pool: str) -> Resources:
        """What a pool's nodes and claims take of its limits."""
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked beside the cluster: the pods, what can be bought, and what an operator set."""

    pods: Sequence[Pod]
    types: Sequence[InstanceType]
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    ignore_preferences: bool = False
    volume_limits: Callable[[str], Mapping[str, int]] = lambda _: {}
    """By node name: how many volumes of each driver it can have attached."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A plan with what it was made from."""

    problem: Problem
    plan: Plan
    seconds: float


def decide(cluster: Cluster, question: Question, clock: Callable[[], float]) -> Decision:
    """Plan for the pods. ``clock`` tells how long it took."""
    began = clock()
    problem = problem_of(cluster, question)
    plan = solve(problem)
    left_out = unusable(cluster)
    if left_out and plan.unschedulable:
        told = {key: told_with(reason, left_out) for key, reason in plan.unschedulable.items()}
        plan = replace(plan, unschedulable=told)
    return Decision(problem, plan, clock() - began)


def problem_of(cluster: Cluster, question: Question) -> Problem:
    """The scheduling problem of a cluster."""
    pools = []
    for pool in usable_pools(cluster.node_pools(), cluster.node_class):
        node_class = cluster.node_class(pool.spec.template.spec.node_class_ref.name)
        assert node_class is not None  # usable_pools looked
        sold = in_zones_of(node_class, question.types)
        pools.append(scheduling_pool(pool, sold, cluster.pool_usage(pool.metadata.name)))
    return Problem(
        pods=question.pods,
        pools=pools,
        nodes=[replace(node, volume_limits=question.volume_limits(node.name)) for node in cluster.nodes()],
        daemons=cluster.daemons(),
        namespaces=question.namespaces,
        ignore_preferences=question.ignore_preferences,
    )


def in_zones_of(node_class: EC2NodeClass, types: Sequence[InstanceType]) -> Sequence[InstanceType]:
    """The types with their offerings in the class's subnets; a class that has resolved none may use every zone."""
    zones = {subnet.zone for subnet in node_class.status.subnets}
    if not zones:
        return types
    return [replace(kind, offerings=tuple(o for o in kind.offerings if o.zone in zones)) for kind in types]


def unusable(cluster: Cluster) -> dict[str, str]:
    """The NodePools that launch nothing, with the reason."""
    found: dict[str, str] = {}
    for pool in cluster.node_pools():
        name = pool.metadata.name
        if pool.metadata.deletion_timestamp is not None:
            found[name] = "it is being deleted"
        elif pool.spec.replicas is not None:
            found[name] = "it is static (spec.replicas is set) and gets no nodes for pods"
        elif faults := check_nodepool(pool):
            found[name] = str(faults[0])
        elif why := why_class_unready(pool, cluster.node_class):
            found[name] = why
    return found


def told_with(reason: str, left_out: Mapping[str, str]) -> str:
    """A reason with those of NodePools that the engine never saw."""
    return "; ".join([reason, *(f"NodePool {name}: {why}" for name, why in sorted(left_out.items()))])


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
