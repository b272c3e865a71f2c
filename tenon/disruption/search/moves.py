"""A move of consolidation: nodes that leave, and the plan for their pods. A joint plan is split into independent moves.

Two nodes of a plan belong together if pods of both go to the same new node. Without such a node they can leave one
without the other, so each is a command of its own: if one fails, it does not undo the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tenon.disruption.nodes import NodeDetail
from tenon.kube.pod import Pod
from tenon.scheduling.model import Plan


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """NodeClaims that leave together. ``plan`` has all their pods; its claims list only types that save money."""

    claims: tuple[str, ...]
    plan: Plan
    guaranteed_saving: float
    """Dollars an hour, if every new node is launched as its dearest type."""
    expected: float
    """Dollars an hour, if every new node is launched as its cheapest type."""


def independent_parts(
    plan: Plan, leaving: Sequence[str], details: Mapping[str, NodeDetail]
) -> list[tuple[tuple[str, ...], Plan]]:
    """Split the plan for these NodeClaims' pods into parts that do not need each other, in the order of the NodeClaims.

    Pods without a place in the plan are left out, and so are nodes that have such a pod, with all that belongs to them.
    """
    owner = {pod.key: claim for claim in leaving for pod in details[claim].pods}
    parent = {claim: claim for claim in leaving}

    def root(claim: str) -> str:
        while parent[claim] != claim:
            parent[claim] = parent[parent[claim]]
            claim = parent[claim]
        return claim

    for planned in plan.claims:
        first = root(owner[planned.pods[0].key])
        for pod in planned.pods[1:]:
            parent[root(owner[pod.key])] = first
    members: dict[str, list[str]] = {}
    for claim in leaving:
        members.setdefault(root(claim), []).append(claim)
    stuck = {root(owner[key]) for key in (*plan.unschedulable, *plan.unreached)}
    bought: dict[str, list[int]] = {}
    for number, planned in enumerate(plan.claims):
        bought.setdefault(root(owner[planned.pods[0].key]), []).append(number)
    moved: dict[str, dict[str, list[Pod]]] = {}
    for node, pods in plan.placements.items():
        for pod in pods:
            moved.setdefault(root(owner[pod.key]), {}).setdefault(node, []).append(pod)
    return [
        (
            tuple(claims),
            Plan(
                tuple(plan.claims[number] for number in bought.get(part_root, ())),
                {node: tuple(pods) for node, pods in moved.get(part_root, {}).items()},
            ),
        )
        for part_root, claims in members.items()
        if part_root not in stuck
    ]


def joined(parts: Sequence[Plan]) -> Plan:
    """Return the plan that has all these parts."""
    placements: dict[str, tuple[Pod, ...]] = {}
    for part in parts:
        for node, pods in part.placements.items():
            placements[node] = (*placements.get(node, ()), *pods)
    return Plan(tuple(claim for part in parts for claim in part.claims), placements)
