"""Which nodes of a node group leave now: all are cordoned at once, and a few at a time are drained and ended.

Nothing is remembered: cordoned nodes leave before others, and one that has no pods left ends. So a drain that was
stopped goes on where it was.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from tenon.errors import TenonError
from tenon.kube.records import PodRecord


class AtOnceError(TenonError):
    """A number of nodes at a time is malformed. The message is one sentence."""


@dataclass(frozen=True, slots=True)
class GroupNode:
    """A node of the group."""

    name: str
    instance: str
    cordoned: bool
    pods: int
    """Pods that a drain waits for: neither of DaemonSets nor mirror pods."""
    runs_tenon: bool = False
    """It runs a pod of Tenon's, which must not run on a node that it manages."""


@dataclass(frozen=True, slots=True)
class Moves:
    """What to do with the nodes now, by their names."""

    staying: Sequence[str]
    cordon: Sequence[str]
    drain: Sequence[str]
    terminate: Sequence[str]

    @property
    def is_over(self) -> bool:
        """Whether only nodes are left that stay."""
        return not (self.cordon or self.drain or self.terminate)


def number_at_once(text: str, count: int) -> int:
    """How many nodes leave at a time: a number, or a share of the nodes, at least one.

    Raises:
        AtOnceError: it is neither.
    """
    match = re.fullmatch(r"(\d+)(%?)", text.strip())
    if match is None or int(match[1]) < 1:
        raise AtOnceError(f"{text!r} is neither a number of nodes nor a share of them: write it like 1 or 10%.")
    return max(1, math.ceil(count * int(match[1]) / 100)) if match[2] else int(match[1])


def moves(nodes: Sequence[GroupNode], *, remain: int, at_once: int) -> Moves:
    """Decide the next moves.

    Args:
        nodes: all nodes of the group.
        remain: how many of them stay.
        at_once: how many are drained at a time.
    """
    by_name = sorted(nodes, key=lambda node: node.name)
    # A run that was stopped may have cordoned all nodes: then cordoned ones stay, too.
    candidates = sorted(by_name, key=lambda node: (not node.runs_tenon, node.cordoned))
    staying = {node.name for node in candidates[:remain]}
    leaving = [node for node in by_name if node.name not in staying]
    cordon = [node.name for node in leaving if not node.cordoned]
    # Those with the fewest pods go first: a node whose drain has begun has fewer than it had.
    draining = sorted((node for node in leaving if node.cordoned and node.pods), key=lambda node: node.pods)
    return Moves(
        staying=sorted(staying),
        cordon=cordon,
        drain=[node.name for node in draining[:at_once]] if not cordon else [],
        terminate=[node.name for node in leaving if node.cordoned and not node.pods] if not cordon else [],
    )


def displaced(pods: Iterable[PodRecord], owners: Collection[str], earlier: Collection[str]) -> list[str]:
    """Return the pods that wait for a node because of the drain, by their keys.

    Only a controller that has or had pods on the group counts, because other pods may come and wait at any time.

    Args:
        pods: all pods without a node.
        owners: UIDs of those controllers.
        earlier: UIDs of pods that waited before the drain began.
    """
    return sorted(
        pod.key
        for pod in pods
        if pod.owner_uid in owners
        and pod.uid not in earlier
        and (pod.unschedulable or pod.untried)
        and not (pod.node_name or pod.deleting or pod.terminal or pod.daemon)
    )
