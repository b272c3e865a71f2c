"""The cluster once a plan is carried out, for a plan that follows before anything is bought.

The second plan must not use the same limits and places in reservations, and rules between pods must see where the pods
of the first one go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tenon.apis import labels
from tenon.resources import NODES, add
from tenon.scheduling.model import InstanceType, Node, Plan, PlannedClaim, Pool, Problem
from tenon.scheduling.offerings.hourly_cost import limits_cost, priced_node, with_used
from tenon.scheduling.reservations import with_places_taken


def problem_after(problem: Problem, plan: Plan) -> Problem:
    """Return the problem with the plan's pods on their nodes, new ones included, and without pods to place."""
    pools = {pool.name: pool for pool in problem.pools}
    nodes = [node.with_pods(plan.placements.get(node.name, ())) for node in problem.nodes]
    nodes += [new_node(f"new:{number}", claim, pools[claim.pool]) for number, claim in enumerate(plan.claims)]
    return replace(problem, pods=(), nodes=nodes, pools=pools_after(problem.pools, plan.claims))


def pools_after(pools: Iterable[Pool], claims: Iterable[PlannedClaim]) -> list[Pool]:
    """Return the pools with what the claims use of their limits, of reservations and of commitments.

    Claims of other pools count only for reservations and commitments.
    """
    claims = list(claims)
    used = {pool.name: pool for pool in pools}
    for claim in claims:
        if claim.pool in used:
            used = with_used(used, claim.pool, add(claim.largest, {NODES: 1}))
    return with_places_taken(used.values(), claims)


def new_node(name: str, claim: PlannedClaim, pool: Pool) -> Node:
    """Return the node that a claim becomes if it is launched as its cheapest type."""
    kind = next(kind for kind in pool.instance_types if kind.name == claim.offering.instance_type)
    label_values = {
        key: requirement.values[0] for key, requirement in kind.requirements.items() if len(requirement.members) == 1
    }
    own = {
        labels.INSTANCE_TYPE: kind.name,
        labels.ZONE: claim.offering.zone,
        labels.CAPACITY_TYPE: claim.offering.capacity_type,
        labels.NODEPOOL: pool.name,
        labels.HOSTNAME: name,
    }
    node = Node(
        name,
        {**label_values, **pool.labels, **claim.requirements.labels(), **own},
        pool.taints,
        kind.allocatable,
        claim.requests,
        pods=claim.pods,
        host_ports=tuple(port for pod in claim.pods for port in pod.host_ports),
        capacity=kind.capacity,
    )
    return priced_node(node, _price_without_commitment(claim, kind)) if limits_cost(pool) else node


def _price_without_commitment(claim: PlannedClaim, kind: InstanceType) -> float:
    """Return what a new node counts against limits on costs, as it does once it is launched."""
    if not claim.commitment:
        return claim.price
    capacity_type, _, zone = claim.offering[:3]
    return min(
        (offer.price for offer in kind.offerings if (offer.capacity_type, offer.zone) == (capacity_type, zone)),
        default=claim.price,
    )
