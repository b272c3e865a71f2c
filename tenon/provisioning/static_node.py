"""The node of a static NodePool, and why it is bought."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tenon.apis.nodepool import NodePool
from tenon.kube.pod import Pod
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.provisioning.pools import scheduling_pool
from tenon.provisioning.purchase import explanation
from tenon.scheduling.empty_node import empty_node_problem, plan_empty_node
from tenon.scheduling.explanation.type_choice import TypeChoiceExplainer
from tenon.scheduling.model import InstanceType, PlannedClaim, Problem


def static_node(
    pool: NodePool,
    types: Sequence[InstanceType],
    daemons: Sequence[Pod],
    namespaces: Mapping[str, Mapping[str, str]],
    policy: PlanPolicy,
) -> tuple[PlannedClaim, str]:
    """Return a node of the pool, without pods, and the lines that say why its NodeClaims are bought.

    Args:
        pool: the static pool. Its limits are ignored, because they only bound the number of nodes.
        types: what its class can buy.
        daemons: one pod for each DaemonSet of the cluster.
        namespaces: the labels of every namespace.
        policy: the operator's settings.

    Raises:
        NoEmptyNodeError: no type fits.
    """
    cluster = Problem(
        pods=(),
        pools=(),
        daemons=daemons,
        namespaces=namespaces,
        min_values_best_effort=policy.min_values_best_effort,
        node_charge=policy.node_charge,
    )
    problem = empty_node_problem(cluster, scheduling_pool(pool, types, {}))
    planned = plan_empty_node(problem)
    occasion = f"one of {pool.spec.replicas} replicas of static NodePool {pool.metadata.name}"
    return planned, explanation(planned, TypeChoiceExplainer(problem).why(planned), occasion)
