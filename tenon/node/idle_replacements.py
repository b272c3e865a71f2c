"""Nodes that were bought for pods which a blocked drain keeps where they are: they stand empty, and cost money.

The NodeClaim of such a node names the pods that it was launched for, whether a disruption command or a plan for a node
that an operator drains created it. So the drain of the old node finds it by its own pods.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from tenon.kube.planned_pods import PlannedPod
from tenon.kube.records import PodRecord
from tenon.money import per_hour
from tenon.sentences import first_few

NAMED_NODES = 3
"""How many nodes a sentence names."""


@dataclass(frozen=True, slots=True)
class IdleNode:
    """A node without pods, how many of the blocked pods it waits for, and its price per hour; 0 if it is unknown."""

    name: str
    pods: int
    price: float


def waits_for(planned: Iterable[PlannedPod], kept_uids: Collection[str]) -> int:
    """Return for how many pods, of those that a drain keeps, a claim with these planned pods was launched."""
    return sum(pod.uid in kept_uids for pod in planned)


def is_empty(node_pods: Iterable[PodRecord]) -> bool:
    """Whether a node has no pod that would need another node."""
    return not any(pod.reschedulable for pod in node_pods)


def idle_sentence(nodes: Sequence[IdleNode]) -> str:
    """Say which nodes stand empty, for how many pods and at what price; empty if there are none."""
    if not nodes:
        return ""
    pods = sum(node.pods for node in nodes)
    names = first_few([node.name for node in nodes], NAMED_NODES)
    is_single = len(nodes) == 1
    nodes_text = f"Node {names} stands" if is_single else f"Nodes {names} stand"
    has_prices = all(node.price > 0 for node in nodes)
    cost = f" at {per_hour(sum(node.price for node in nodes))}{'' if is_single else ' together'}" if has_prices else ""
    return f"meanwhile {nodes_text} empty{cost} and {'waits' if is_single else 'wait'} for {pods} of these pods"
