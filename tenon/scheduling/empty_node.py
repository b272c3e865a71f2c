"""A node for no pod in particular, as a static NodePool buys it: what the engine would buy for one pod without
requirements.

So it follows every rule that other nodes follow: the types that the pool allows and that are sold, `minValues`, the
resources that DaemonSets need, the cheapest types first.
"""

from __future__ import annotations

from dataclasses import replace

from tenon.errors import TenonError
from tenon.kube.pod import Pod
from tenon.kube.taints import Toleration
from tenon.resources import PODS, subtract
from tenon.scheduling.engine import solve
from tenon.scheduling.model import PlannedClaim, Pool, Problem
from tenon.scheduling.within_costs import solve_within_costs

_PLACEHOLDER_POD = Pod("", "static", "static", {PODS: 1}, tolerations=(Toleration(operator="Exists"),))
"""A pod that every node of every pool accepts."""


class NoEmptyNodeError(TenonError):
    """No instance type can be bought for the pool now; the message says why."""


def empty_node_problem(cluster: Problem, pool: Pool) -> Problem:
    """Return the problem of buying one node of the pool. Its limits are ignored, because the caller counts nodes."""
    return replace(cluster, pods=[_PLACEHOLDER_POD], pools=[replace(pool, limits=None)], nodes=())


def plan_empty_node(problem: Problem) -> PlannedClaim:
    """Solve an `empty_node_problem`. Return the node, without pods.

    Raises:
        NoEmptyNodeError: no type fits.
    """
    plan = solve_within_costs(problem, solve)
    if not plan.claims:
        raise NoEmptyNodeError("; ".join(map(str, plan.unschedulable.values())))
    (planned,) = plan.claims
    requests = {name: units for name, units in subtract(planned.requests, _PLACEHOLDER_POD.requests).items() if units}
    return replace(planned, pods=(), requests=requests)
