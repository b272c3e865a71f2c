"""The node of a static NodePool, and why it is bought."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tenon.apis.nodepool import NodePool
from tenon.kube.pod import Pod
from tenon.messages.explanation import Explanation
from tenon.provisioning.cost_limits import BoughtOffering, with_cost_limits
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.provisioning.pools import scheduling_pool
from tenon.provisioning.purchase import explanation
from tenon.scheduling.empty_node import NoEmptyNodeError, empty_node_problem, plan_empty_node
from tenon.scheduling.explanation.type_choice import TypeChoiceExplainer
from tenon.scheduling.model import InstanceType, PlannedClaim, Pool, Problem


def static_node(
    pool: NodePool,
    types: Sequence[InstanceType],
    daemons: Sequence[Pod],
    namespaces: Mapping[str, Mapping[str, str]],
    policy: PlanPolicy,
    purchases: Sequence[BoughtOffering] = (),
    count: int = 1,
) -> tuple[PlannedClaim, Explanation]:
    """Return a node of the pool, without pods, and why its NodeClaims are bought.

    Args:
        pool: the static pool. Its other limits than those on costs are ignored: they only bound the number of nodes.
        types: what its class can buy.
        daemons: one pod for each DaemonSet of the cluster.
        namespaces: the labels of every namespace.
        policy: the operator's settings.
        purchases: what was bought for all NodePools, for limits on costs.
        count: how many of these nodes the limits on costs must allow.

    Raises:
        NoEmptyNodeError: no type fits, or the limits on costs leave too little.
    """
    cluster = Problem(
        pods=(),
        pools=(),
        daemons=daemons,
        namespaces=namespaces,
        min_values_best_effort=policy.min_values_best_effort,
        node_charge=policy.node_charge,
    )
    bought_from = replace(scheduling_pool(pool, types, {}), limits=None)
    (limited,) = with_cost_limits([bought_from], [(pool, types)], lambda: purchases, policy)
    problem = replace(empty_node_problem(cluster, limited), pools=[_share(limited, count)])
    planned = plan_empty_node(problem)
    occasion = f"one of {pool.spec.replicas} replicas of static NodePool {pool.metadata.name}"
    return planned, explanation(planned, TypeChoiceExplainer(problem).why(planned), occasion)


def affordable_nodes(
    node: Callable[[int], tuple[PlannedClaim, Explanation]], missing_nodes: int, *, limits_cost: bool
) -> tuple[PlannedClaim, Explanation, int]:
    """Return a node of a static pool, why it is bought, and how many of it: half as many as are missing, or a quarter
    and so on, if limits on costs do not allow all.

    Args:
        node: returns a `static_node` of which the limits allow so many.
        missing_nodes: how many are missing; at least one.
        limits_cost: whether there is such a limit.

    Raises:
        NoEmptyNodeError: not even one can be bought.
    """
    count = missing_nodes
    while limits_cost and count > 1:
        try:
            return *node(count), count
        except NoEmptyNodeError:
            count //= 2
    return *node(1), count


def _share(pool: Pool, count: int) -> Pool:
    """Return the pool with a part of what its limits leave."""
    if not pool.limits:
        return pool
    remaining = {name: limit - pool.usage.get(name, 0) for name, limit in pool.limits.items()}
    used = {name: pool.limits[name] - amount // count for name, amount in remaining.items()}
    return replace(pool, usage=pool.usage | used)
