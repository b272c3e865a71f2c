"""Buys nodes for the waiting pods of the model, with the steps of the worker's planner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tenon.apis.nodepool import NodePool
from tenon.scheduling.model import Plan, PlannedClaim, Problem
from tenon.shadow.cluster import ModelCluster
from tenon.shadow.nodes import ModelNode, bought_node
from tenon.shadow.view import ModelView
from tenon.simulation.decisions import PlanQuestion, SolvedProblem, decide

IDLE_SECONDS, LONGEST_SECONDS = 1.0, 10.0
"""The batch window: a plan is made once no pod came for this long, or the first one has waited that long."""
RETRY_SECONDS = 60.0
"""Seconds until pods that no plan could place are planned again."""


@dataclass(frozen=True, slots=True)
class Purchase:
    """What a plan bought."""

    nodes: Sequence[ModelNode]
    unplaced: int
    """Pods that it could not place."""


def is_due(cluster: ModelCluster, now: float) -> bool:
    """Return whether the batch of waiting pods is complete, or pods that could not be placed may be tried again."""
    since = [pod.since for pod in cluster.waiting() if pod.live.uid not in cluster.unplaced]
    if since:
        return now - max(since) >= IDLE_SECONDS or now - min(since) >= LONGEST_SECONDS
    return bool(cluster.unplaced) and now - cluster.planned_at >= RETRY_SECONDS


def buy(view: ModelView, question: PlanQuestion, boot: float, clock: Callable[[], float]) -> Purchase:
    """Plan for all waiting pods and carry the plan out.

    Args:
        view: the model now.
        question: the input to plans; its pods do not count.
        boot: seconds until a node is ready.
        clock: measures the duration.
    """
    cluster, now = view.cluster, view.now
    waiting = {pod.live.pod.key: pod for pod in cluster.waiting()}
    cluster.planned_at = now
    decision = decide(view, replace(question, pods=[pod.live.pod for pod in waiting.values()]), clock)
    versions = view.versions()
    bought = add_claims(view, decision.plan.claims, decision.problem, boot, versions)
    for node, claim in zip(bought, decision.plan.claims, strict=True):
        for pod in claim.pods:
            cluster.place(pod.uid, node.name, now)
        node.quiet = node.ready
    _place_on_existing(view, decision)
    unplaced = unplaced_reasons(decision.plan)
    cluster.unplaced = {waiting[key].live.uid: why for key, why in unplaced.items() if key in waiting}
    return Purchase(bought, len(cluster.unplaced))


def add_claims(
    view: ModelView, claims: Sequence[PlannedClaim], problem: Problem, boot: float, versions: dict[str, str]
) -> list[ModelNode]:
    """Add the nodes of planned NodeClaims, without their pods, in their order."""
    pools = {pool.name: pool for pool in problem.pools}
    node_pools = {pool.metadata.name: pool for pool in view.node_pools()}
    nodes = []
    for claim in claims:
        node = bought_node(view.cluster.new_name(), claim, pools[claim.pool], view.now, boot)
        node.version = versions.get(claim.pool, "")
        node.expires = _expiry(node_pools.get(claim.pool), view.now)
        view.cluster.add_node(node)
        nodes.append(node)
    return nodes


def unplaced_reasons(plan: Plan) -> dict[str, str]:
    """Return why the plan does not place pods, by key."""
    reasons = {key: str(reason) for key, reason in plan.unschedulable.items()}
    return {**reasons, **dict.fromkeys(plan.unreached, "the plan did not reach it")}


def _place_on_existing(view: ModelView, decision: SolvedProblem) -> None:
    for name, pods in decision.plan.placements.items():
        if name not in view.cluster.nodes:
            continue
        for pod in pods:
            view.cluster.place(pod.uid, name, view.now)


def _expiry(pool: NodePool | None, now: float) -> float | None:
    after = pool.spec.template.spec.expire_after.seconds if pool is not None else None
    return None if after is None else now + after
