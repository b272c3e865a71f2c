"""The cluster for methods that move pods, once a plan is carried out.

A module of its own, because a simulation without disruption ends with the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tenon.apis.nodepool import NodePool
from tenon.disruption.cluster_model import ClusterModel, model_of
from tenon.disruption.covered_nodes import with_coverage
from tenon.disruption.nodes import NodeDetail
from tenon.disruption.scored_zones import with_scores
from tenon.provisioning.overlays import apply_overlays
from tenon.provisioning.problem import PlannedCluster, problem_of, scheduling_pools
from tenon.provisioning.readiness import usable_pools
from tenon.provisioning.static_capacity import usable_static_pools
from tenon.scheduling.after_plan import pools_after
from tenon.scheduling.model import InstanceType, Plan
from tenon.simulation.decisions import PlanQuestion, sold

NodeDetails = Callable[[Mapping[str, Sequence[InstanceType]]], Mapping[str, NodeDetail]]
"""Returns the details of all initialized nodes, by NodeClaim, from the instance types of each NodePool."""


def model_after(
    plan: Plan,
    cluster: PlannedCluster,
    question: PlanQuestion,
    node_details: NodeDetails,
    wave_pools: Sequence[NodePool] = (),
) -> ClusterModel:
    """Return the cluster for methods that move pods, once a plan is carried out.

    The plan's pods are on the existing nodes that it chose, and its new nodes use the limits of their pools.
    ``wave_pools``: the NodePools of which a rollout replaces nodes, in the version that those nodes get.
    """
    pools, find_class = cluster.node_pools(), cluster.node_class
    static = usable_static_pools(pools, find_class)
    pools_with_types = sold([*usable_pools(pools, find_class), *static], cluster, question)
    overlaid = apply_overlays(pools_with_types, question.overlays)
    problem = problem_of(cluster, [], overlaid.pools_with_types, question.policy, plan.placements)
    details = node_details(overlaid.types_by_pool())
    remaining = replace(problem, pools=pools_after(problem.pools, plan.claims))
    model = model_of(remaining, details, {pool.metadata.name for pool in static})
    if not wave_pools:
        return with_scores(with_coverage(model, question.coverage), question.scores_of)
    usable = [*usable_pools(wave_pools, find_class), *usable_static_pools(wave_pools, find_class)]
    waves = apply_overlays(sold(usable, cluster, question), question.overlays)
    in_version = scheduling_pools(cluster, waves.pools_with_types, question.policy)
    model = replace(model, wave_pools={pool.name: pool for pool in in_version})
    return with_scores(with_coverage(model, question.coverage), question.scores_of)
