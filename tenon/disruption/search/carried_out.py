"""The cluster as it will be once moves are carried out, so that a search can look again before anything happens.

A second pass finds what the first one made possible, for example room on a new node. It is better to plan that now than
to move the same pods twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tenon.apis import labels
from tenon.disruption.cluster_model import ClusterModel
from tenon.disruption.nodes import NodeDetail
from tenon.disruption.search.cost import NODE_BASE, eviction_cost
from tenon.kube.pod import Pod
from tenon.resources import NODES, subtract
from tenon.scheduling.after_plan import new_node
from tenon.scheduling.model import Node, Plan, PlannedClaim, Pool
from tenon.scheduling.offerings.hourly_cost import with_used
from tenon.scheduling.reservations import with_places_taken


@dataclass(frozen=True, slots=True)
class CarriedOut:
    """The cluster after a series of moves."""

    model: ClusterModel
    new: Mapping[str, int]
    """The NodeClaims of new nodes -> the position of the move that they belong to. Their Nodes have the same name."""

    def named(self, claims: Sequence[str], plan: Plan) -> list[tuple[str, PlannedClaim]]:
        """Return the new nodes of a move with their names in the model."""
        return [(new_name(claims, number), planned) for number, planned in enumerate(plan.claims)]


def carried_out(model: ClusterModel, moves: Sequence[tuple[Sequence[str], Plan]]) -> CarriedOut:
    """Return the model as if these NodeClaims were gone and their pods on the nodes of the plans.

    Each new node is of the claim's cheapest type, as EC2 launches it if it can.
    """
    nodes = {node.name: node for node in model.problem.nodes}
    pools = {pool.name: pool for pool in model.problem.pools}
    details = dict(model.details)
    by_node = {detail.node: claim for claim, detail in details.items()}
    new: dict[str, int] = {}
    for position, (claims, plan) in enumerate(moves):
        pods = [pod for claim in claims for pod in details[claim].pods]
        moved = sum(model.details[claim].cost - NODE_BASE for claim in claims)
        moved_share = moved / len(pods) if pods else 0.0
        for claim in claims:
            node = nodes.pop(details.pop(claim).node)
            pool = pools.get(node.labels.get(labels.NODEPOOL, ""))
            if pool is not None:
                pools = with_used(pools, pool.name, subtract({}, _used_by(node, pool)))
        for name, arrived in plan.placements.items():
            nodes[name] = nodes[name].with_pods(arrived)
            host = by_node.get(name)
            if host is not None and host in details:
                details[host] = _with_pods(details[host], arrived, moved_share)
        for number, planned in enumerate(plan.claims):
            name = new_name(claims, number)
            pool = pools[planned.pool]
            nodes[name] = new_node(name, planned, pool)
            details[name] = _detail(name, planned)
            pools = with_used(pools, pool.name, _used_by(nodes[name], pool))
            new[name] = position
    bought = [planned for _, plan in moves for planned in plan.claims]
    problem = replace(model.problem, nodes=list(nodes.values()), pools=with_places_taken(pools.values(), bought))
    return CarriedOut(replace(model, problem=problem, details=details), new)


def new_name(claims: Sequence[str], number: int) -> str:
    """Return the name of a new node of the move that removes these NodeClaims."""
    return f"new-{min(claims)}-{number}"


def _used_by(node: Node, pool: Pool) -> dict[str, int]:
    """Return what the node uses of the pool's limits."""
    return {name: 1 if name == NODES else node.limited.get(name, 0) for name in pool.limits or {}}


def _with_pods(detail: NodeDetail, pods: Iterable[Pod], cost: float) -> NodeDetail:
    arrived = tuple(pods)
    return replace(detail, pods=(*detail.pods, *arrived), cost=detail.cost + cost * len(arrived))


def _detail(name: str, claim: PlannedClaim) -> NodeDetail:
    return NodeDetail(
        node=name,
        instance_type=claim.offering.instance_type,
        zone=claim.offering.zone,
        capacity_type=claim.offering.capacity_type,
        price=claim.price,
        pods=claim.pods,
        cost=NODE_BASE + sum(max(0.0, eviction_cost(pod.priority, 0)) for pod in claim.pods),
    )
