"""Compares two plans: what each kind of node costs, which pods move, and which find no node.

New nodes have no identity yet, so pods move if they come to another kind of node: another NodePool, instance type,
capacity type or zone, or an existing node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tenon.simulation.document import DIGITS, Document
from tenon.simulation.report import without_replica_number


class NodeKind(NamedTuple):
    """What new nodes have in common, or one existing node."""

    pool: str
    """Empty for an existing node."""
    instance_type: str
    """The name of an existing node."""
    capacity_type: str = ""
    zone: str = ""


@dataclass(frozen=True, slots=True)
class NodeChange:
    """A kind of new node of which the plans have different numbers, or at different prices."""

    kind: NodeKind
    count_before: int
    count_after: int
    price_before: float
    """Of all of them, in dollars an hour."""
    price_after: float


@dataclass(frozen=True, slots=True)
class PodChange:
    """Pods of one workload for which the same changes."""

    workload: str
    count: int
    before: NodeKind | None
    """None if they have no node."""
    after: NodeKind | None
    reason: str = ""
    """Why they have no node after the change, or had none before it."""


@dataclass(frozen=True, slots=True)
class PlanDifference:
    """What differs between two plans."""

    nodes: Sequence[NodeChange]
    """The largest change of price first."""
    moves: Sequence[PodChange]
    unschedulable: Sequence[PodChange]
    """Pods that have no node any more."""
    schedulable: Sequence[PodChange]
    """Pods that had no node before."""
    added: Mapping[str, int]
    """By workload, the pods that only the second plan has."""
    removed: Mapping[str, int]
    """By workload, the pods that only the first plan has."""

    @property
    def is_empty(self) -> bool:
        """True if both plans buy the same nodes at the same prices for the same pods."""
        return not any((self.nodes, self.moves, self.unschedulable, self.schedulable, self.added, self.removed))


def difference(before: Document, after: Document) -> PlanDifference:
    """Return what differs between the documents of two plans."""
    places, new_places = _places(before), _places(after)
    changes: Counter[PodChange] = Counter()
    for key in places.keys() & new_places.keys():
        (old, old_reason), (new, new_reason) = places[key], new_places[key]
        if old != new:
            changes[PodChange(without_replica_number(key), 0, old, new, new_reason or old_reason)] += 1
    pods = sorted(
        (
            PodChange(change.workload, count, change.before, change.after, change.reason)
            for change, count in changes.items()
        ),
        key=lambda change: (-change.count, change.workload, change.before or (), change.after or (), change.reason),
    )
    return PlanDifference(
        nodes=sorted(
            _node_changes(before, after),
            key=lambda change: (-abs(change.price_after - change.price_before), change.kind),
        ),
        moves=[change for change in pods if change.before is not None and change.after is not None],
        unschedulable=[change for change in pods if change.after is None],
        schedulable=[change for change in pods if change.before is None],
        added=Counter(sorted(map(without_replica_number, new_places.keys() - places.keys()))),
        removed=Counter(sorted(map(without_replica_number, places.keys() - new_places.keys()))),
    )


def _places(document: Document) -> dict[str, tuple[NodeKind | None, str]]:
    """Return where each pod is, or None and the reason."""
    places: dict[str, tuple[NodeKind | None, str]] = {
        entry["pod"]: (None, entry["reason"]) for entry in document["unschedulable"]
    }
    for claim in document["nodeClaims"]:
        places.update((key, (_kind(claim), "")) for key in claim["pods"])
    for node in document["existingNodes"]:
        places.update((key, (NodeKind("", node["name"]), "")) for key in node["pods"])
    return places


def _kind(claim: Document) -> NodeKind:
    offering = claim["offering"]
    return NodeKind(claim["nodePool"], offering["instanceType"], offering["capacityType"], offering["zone"])


def _node_changes(before: Document, after: Document) -> Iterator[NodeChange]:
    old, new = _bought(before), _bought(after)
    for kind in old.keys() | new.keys():
        old_prices, new_prices = old.get(kind, []), new.get(kind, [])
        change = NodeChange(
            kind, len(old_prices), len(new_prices), round(sum(old_prices), DIGITS), round(sum(new_prices), DIGITS)
        )
        if (change.count_before, change.price_before) != (change.count_after, change.price_after):
            yield change


def _bought(document: Document) -> dict[NodeKind, list[float]]:
    """Return the prices of the new nodes of each kind."""
    prices: dict[NodeKind, list[float]] = {}
    for claim in document["nodeClaims"]:
        prices.setdefault(_kind(claim), []).append(claim["price"])
    return prices
