"""The node of a static NodePool: what the engine would buy for one pod without requirements.

A static node thus follows every rule that other nodes follow: the types that the pool allows and that are sold,
`minValues`, the resources that DaemonSets need, the cheapest types first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tenon.apis.nodepool import NodePool
from tenon.errors import TenonError
from tenon.kube.pod import Pod
from tenon.kube.taints import Toleration
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.provisioning.pools import scheduling_pool
from tenon.provisioning.purchase import explanation
from tenon.resources import PODS, subtract
from tenon.scheduling.engine import solve
from tenon.scheduling.explanation.type_choice import TypeChoiceExplainer
from tenon.scheduling.model import InstanceType, PlannedClaim, Problem

_PLACEHOLDER_POD = Pod("", "static", "static", {PODS: 1}, tolerations=(Toleration(operator="Exists"),))
"""A pod that every node of every pool accepts."""


class NoStaticNodeError(TenonError):
    """No instance type can be bought for the pool now; the message says why."""


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
        NoStaticNodeError: no type fits.
    """
    problem = Problem(
        pods=[_PLACEHOLDER_POD],
        pools=[replace(scheduling_pool(pool, types, {}), limits=None)],
        daemons=daemons,
        namespaces=namespaces,
        min_values_best_effort=policy.min_values_best_effort,
        node_charge=policy.node_charge,
    )
    plan = solve(problem)
    if not plan.claims:
        raise NoStaticNodeError("; ".join(plan.unschedulable.values()))
    (planned,) = plan.claims
    requests = {name: units for name, units in subtract(planned.requests, _PLACEHOLDER_POD.requests).items() if units}
    planned = replace(planned, pods=(), requests=requests)
    occasion = f"one of {pool.spec.replicas} replicas of static NodePool {pool.metadata.name}"
    return planned, explanation(planned, TypeChoiceExplainer(problem).why(planned), occasion)
