"""Builds the scheduling problem of a cluster, for provisioning, disruption and ``tenon simulate`` alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodepool import NodePool
from tenon.kube.node_affinity import accepts_pool
from tenon.kube.offerings import OfferingKey
from tenon.kube.pod import Pod
from tenon.kube.pool_reasons import Clause, NoPlace, Obstacle
from tenon.provisioning.cost_limits import BoughtOffering, priced_nodes, with_cost_limits
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.provisioning.pools import scheduling_pool
from tenon.provisioning.readiness import FRESH, Checks, what_makes_unusable
from tenon.provisioning.refused_types import NOTHING_REFUSED
from tenon.resources import Resources
from tenon.rollout.revisions import class_key
from tenon.scheduling.model import InstanceType, Node, Plan, Pool, Problem
from tenon.scheduling.offerings.hourly_cost import limits_cost


class Surroundings(Protocol):
    """What surrounds the nodes of NodePools and the pods on them. `tenon shadow` has it from the real cluster."""

    def daemons(self) -> Sequence[Pod]:
        """One template pod for each DaemonSet."""
        ...

    def namespaces(self) -> Mapping[str, Mapping[str, str]]:
        """The labels of every namespace."""
        ...

    def node_pools(self) -> Sequence[NodePool]:
        """The NodePools that can be parsed."""
        ...

    def node_class(self, name: str) -> EC2NodeClass | None:
        """The EC2NodeClass with this name, if it exists and can be parsed."""
        ...


class PlannedCluster(Surroundings, Protocol):
    """What a plan needs to know of a cluster. The worker's view of its cache implements it."""

    def nodes(self) -> Sequence[Node]:
        """Existing and in-flight capacity."""
        ...

    def pool_usage(self, pool: str) -> Resources:
        """What the pool's nodes and claims use of its limits, including the limit on ``nodes``."""
        ...

    def purchases(self) -> Sequence[BoughtOffering]:
        """What the nodes and claims of all NodePools were bought as."""
        ...


def problem_of(
    cluster: PlannedCluster,
    pods: Sequence[Pod],
    pools_with_types: Sequence[tuple[NodePool, Sequence[InstanceType]]],
    policy: PlanPolicy,
    nominated_pods: Mapping[str, Sequence[Pod]] | None = None,
    refused: Mapping[OfferingKey, datetime] = NOTHING_REFUSED,
) -> Problem:
    """Return the problem of placing these pods.

    Args:
        cluster: the cluster as it is now.
        pods: the pods to place.
        pools_with_types: the pools that may launch nodes, each with the types that its class can buy.
        policy: the operator's settings.
        nominated_pods: by node, pods that earlier plans placed there but that do not run there yet. Their resources
            count as used, and rules between pods count them on that node only.
        refused: what EC2 refused, with the time when plans try it again. It explains why a pool has no type.
    """
    expected = nominated_pods or {}
    placed_anew = {pod.uid for group in (pods, *expected.values()) for pod in group}
    nodes = [node.without_pods(placed_anew).with_pods(expected.get(node.name, ())) for node in cluster.nodes()]
    pools = scheduling_pools(cluster, pools_with_types, policy, refused)
    return Problem(
        pods=pods,
        pools=pools,
        nodes=priced_nodes(nodes, pools_with_types) if any(map(limits_cost, pools)) else nodes,
        daemons=cluster.daemons(),
        namespaces=cluster.namespaces(),
        ignore_preferences=policy.ignore_preferences,
        min_values_best_effort=policy.min_values_best_effort,
        node_charge=policy.node_charge,
        most_pods_share=policy.most_pods_share,
    )


def scheduling_pools(
    cluster: PlannedCluster,
    pools_with_types: Sequence[tuple[NodePool, Sequence[InstanceType]]],
    policy: PlanPolicy,
    refused: Mapping[OfferingKey, datetime] = NOTHING_REFUSED,
) -> list[Pool]:
    """Return the pools for the engine, each with the types that its class can buy, and with its limits on costs.

    ``refused``: as in `problem_of`.
    """
    pools = [
        scheduling_pool(pool, types, cluster.pool_usage(pool.metadata.name), _zones_of(pool, cluster), refused)
        for pool, types in pools_with_types
    ]
    return with_cost_limits(pools, pools_with_types, cluster.purchases, policy)


def with_pool_reasons(
    plan: Plan,
    cluster: PlannedCluster,
    pods: Sequence[Pod],
    left_out: Mapping[str, Obstacle] | None = None,
    checks: Checks = FRESH,
) -> Plan:
    """Adds, to the reason of each unschedulable pod, why the engine did not consider some NodePools that it accepts.

    NodePools that only wait come first in the reason.

    ``left_out``: by name, why a usable pool was left out.
    """
    if not plan.unschedulable:
        return plan
    obstacles = {
        pool.metadata.name: what_makes_unusable(pool, cluster.node_class, checks)
        or (left_out or {}).get(pool.metadata.name)
        for pool in cluster.node_pools()
    }
    unseen = [Clause(name, (obstacle,)) for name, obstacle in sorted(obstacles.items()) if obstacle is not None]
    hopeless = {pod.key for pod in pods if pod.unsupported}
    terms = {pod.key: pod.required_terms for pod in pods}
    completed: dict[tuple[int, tuple[str, ...]], NoPlace] = {}  # pods share reasons: each is completed once

    def complete(key: str, reason: NoPlace) -> NoPlace:
        if key in hopeless:
            return reason
        more = [clause for clause in unseen if accepts_pool(terms.get(key, ()), clause.pool)]
        case = id(reason), tuple(clause.pool for clause in more)
        if case not in completed:
            completed[case] = reason.with_clauses(more)
        return completed[case]

    return replace(plan, unschedulable={key: complete(key, reason) for key, reason in plan.unschedulable.items()})


def _zones_of(pool: NodePool, cluster: PlannedCluster) -> frozenset[str]:
    """Return the zones in which the pool's class has subnets; empty if they are not known."""
    ec2_class = cluster.node_class(class_key(pool))
    return frozenset(subnet.zone for subnet in ec2_class.status.subnets) if ec2_class else frozenset()
