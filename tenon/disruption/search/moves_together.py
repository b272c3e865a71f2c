"""Checks that the moves of one decision do not take from each other what they were planned for.

Moves are planned one after another, but their commands run at the same time. A pod may be planned into a zone because
pods of another zone count, and a later move may take those away. kube-scheduler would then not bind the pod to the node
that was bought for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tenon.apis import labels
from tenon.disruption.cluster_model import ClusterModel
from tenon.disruption.search.carried_out import new_name
from tenon.disruption.search.moves import Move
from tenon.kube.pod import Pod
from tenon.resources import subtract, total
from tenon.scheduling.admission import admits, depends_on_domains
from tenon.scheduling.after_plan import new_node
from tenon.scheduling.model import Node, PlannedClaim, Pool


def stand_together(model: ClusterModel, moves: Sequence[Move]) -> bool:
    """Return whether kube-scheduler lets all pods of the moves onto their nodes once the other nodes are gone.

    Pods on a new node whose zone is still open count in no zone.
    """
    if not any(depends_on_domains(pod) for move in moves for pod in _moved(move)):
        return True
    leaving_nodes = {model.details[claim].node for move in moves for claim in move.claims}
    nodes = [node for node in model.problem.nodes if node.name not in leaving_nodes]
    pools = {pool.name: pool for pool in model.problem.pools}
    placements: dict[str, tuple[Pod, ...]] = {}
    for move in moves:
        for name, pods in move.plan.placements.items():
            placements[name] = (*placements.get(name, ()), *pods)
        for number, planned in enumerate(move.plan.claims):
            if len(planned.requirements.get(labels.ZONE).values) == 1:
                node = _empty(new_name(move.claims, number), planned, pools[planned.pool])
                nodes.append(node)
                placements[node.name] = planned.pods
    return admits(replace(model.problem, nodes=nodes), placements, model.tables, model.facts)


def _moved(move: Move) -> list[Pod]:
    """Return all pods of the move."""
    pods = [pod for planned in move.plan.claims for pod in planned.pods]
    return pods + [pod for placed_pods in move.plan.placements.values() for pod in placed_pods]


def _empty(name: str, planned: PlannedClaim, pool: Pool) -> Node:
    """Return the new node before its pods arrive."""
    used = subtract(planned.requests, total(pod.requests for pod in planned.pods))
    return replace(new_node(name, planned, pool), used=used, pods=(), host_ports=())
