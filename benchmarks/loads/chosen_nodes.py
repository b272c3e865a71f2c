"""Makes a plan of nodes that are chosen already: which pods share a node, and in which zone it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.kube.pod_rules import PodRules
from tenon.kube.requirements import IN, Requirement, Requirements
from tenon.scheduling.bound.sizing_rules import sizing_cost
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Plan, PlannedClaim, Pool, Problem
from tenon.scheduling.pods.pod_classes import NO_TERM


@dataclass(frozen=True, slots=True)
class ChosenNode:
    """The pods of a node, and its zone; None for any."""

    pods: tuple[Pod, ...]
    zone: str | None


def plan_of_nodes(problem: Problem, nodes: Sequence[ChosenNode], other: Plan) -> Plan | None:
    """Return the plan of these nodes, in which the same pods as in another plan have no place.

    None if the pods of a node do not fit, if a pod is on no node, or if the problem has several NodePools.
    """
    claims: list[PlannedClaim] = []
    for node in nodes:
        own = claims_of_node(problem, node) if node.pods else ()
        if own is None:
            return None
        claims += own
    placed = {pod.key for claim in claims for pod in claim.pods}
    if placed != {pod.key for pod in problem.pods} - other.unschedulable.keys():
        return None
    return Plan(tuple(claims), {}, other.unschedulable)


def claims_of_node(problem: Problem, node: ChosenNode) -> tuple[PlannedClaim, ...] | None:
    """Return the claim for the pods of a node, or several that cost less; None if they do not fit.

    Rules between pods are left out. A claim within limits lists one type only, because every listed type counts.
    """
    if len(problem.pools) != 1:
        return None
    (pool,) = problem.pools
    alone = [_alone(pod, node.zone) for pod in node.pods]
    claims = _claims(problem, alone, replace(pool, limits=None))
    if claims is not None and pool.limits:
        singles = [_cheapest_single(problem, pool, claim) for claim in claims]
        claims = tuple(claim for claim in singles if claim is not None) if all(singles) else None
    if claims is None:
        return None
    pods = {pod.key: pod for pod in node.pods}
    return tuple(replace(claim, pods=tuple(pods[pod.key] for pod in claim.pods)) for claim in claims)


def _cheapest_single(problem: Problem, pool: Pool, claim: PlannedClaim) -> PlannedClaim | None:
    """The claim with only the type that it costs least with."""
    singles: list[PlannedClaim] = []
    for name in claim.instance_types:
        types = tuple(instance_type for instance_type in pool.instance_types if instance_type.name == name)
        claims = _claims(problem, claim.pods, replace(pool, instance_types=types, limits=None))
        singles += claims if claims is not None and len(claims) == 1 else ()
    return min(singles, key=lambda single: sizing_cost(problem, Plan((single,))), default=None)


def _claims(problem: Problem, pods: Sequence[Pod], pool: Pool) -> tuple[PlannedClaim, ...] | None:
    plan = solve(replace(problem, pods=pods, pools=[pool]))
    return None if plan.unschedulable else plan.claims


def _alone(pod: Pod, zone: str | None) -> Pod:
    """The pod without rules about other pods, in a zone."""
    terms = pod.required_terms
    if zone is not None:
        in_zone = Requirements.of(Requirement.new(labels.ZONE, IN, (zone,)))
        terms = tuple(term.with_(in_zone) for term in terms or NO_TERM)
    return replace(pod, rules=PodRules(), required_terms=terms)
