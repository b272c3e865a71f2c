"""Finds the entries that are about an object, while a month of the record streams by."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from tenon.kube.node_names import may_stand_for
from tenon.record.entries import (
    CommandEndEntry,
    CommandEntry,
    CostEntry,
    DisruptionEntry,
    Entry,
    LaunchEntry,
    PlanEntry,
    RecordedNode,
    RefusalEntry,
    RemovalEntry,
    TeardownEntry,
)

AFTERWARDS = timedelta(minutes=5)
"""How long after a node's end a plan may be for pods that it lost."""


@dataclass(frozen=True, slots=True)
class NodeNames:
    """The names of one node; empty if unknown."""

    claim: str = ""
    node: str = ""
    instance: str = ""

    @property
    def names(self) -> frozenset[str]:
        """All names that are known."""
        return frozenset(filter(None, (self.claim, self.node, self.instance)))


def nodes_in(entry: Entry) -> Iterator[str]:
    """Yield the names of all NodeClaims, Nodes and instances in an entry."""
    match entry:
        case PlanEntry():
            yield from entry.on_existing
            yield from (purchase.claim for purchase in entry.purchases)
        case CommandEntry():
            for candidate in entry.candidates:
                yield from (candidate.claim, candidate.node)
            yield from (purchase.claim for purchase in entry.replacements)
        case CommandEndEntry():
            yield from (*entry.accepted, *entry.refused, *entry.replacements)
        case LaunchEntry() | RemovalEntry():
            yield from (entry.facts.claim, entry.facts.node, entry.facts.instance)
        case RefusalEntry():
            yield entry.claim


def mentions_node(entry: Entry, names: Collection[str]) -> bool:
    """Whether the entry names one of these NodeClaims, Nodes or instances."""
    return any(name in names for name in nodes_in(entry))


def whole_nodes_in(entry: Entry) -> Iterator[str]:
    """Yield the names of the Nodes in an entry that says which of its names are Nodes."""
    return (identity.node for identity in _identities_in(entry) if identity.node)


def abbreviates_node(entry: Entry, name: str) -> bool:
    """Whether the name is that of a Node of the entry without its domain."""
    return any(may_stand_for(name, node) for node in whole_nodes_in(entry))


def mentions_pod(entry: Entry, key: str) -> bool:
    """Whether the entry is a plan or a command that decides about the pod."""
    if isinstance(entry, PlanEntry):
        placed = any(key in pods for pods in entry.on_existing.values())
        return placed or key in entry.unschedulable or any(key in purchase.pods for purchase in entry.purchases)
    return isinstance(entry, CommandEntry) and any(key in purchase.pods for purchase in entry.replacements)


def mentions_pool(entry: Entry, pool: str) -> bool:
    """Whether the entry is about nodes of the NodePool."""
    match entry:
        case PlanEntry():
            return any(purchase.pool == pool for purchase in entry.purchases) or any(
                reason.clause_of(pool) is not None for reason in entry.unschedulable.values()
            )
        case CommandEntry():
            return any(candidate.pool == pool for candidate in entry.candidates)
        case LaunchEntry() | RemovalEntry():
            return entry.facts.pool == pool
        case RefusalEntry():
            return entry.pool == pool
        case CommandEndEntry() | CostEntry() | DisruptionEntry() | TeardownEntry():
            return False


def identities(name: str, entries: Iterable[Entry]) -> list[NodeNames]:
    """Return the nodes that had this name, the newest first: names of Nodes and NodeClaims may be used again."""
    facts_by_claim: dict[str, NodeNames] = {}
    newest: dict[str, datetime] = {}
    for entry in entries:
        for identity in _identities_in(entry):
            if name not in identity.names:
                continue
            earlier = facts_by_claim.get(identity.claim, NodeNames())
            facts_by_claim[identity.claim] = NodeNames(
                identity.claim, identity.node or earlier.node, identity.instance or earlier.instance
            )
            newest[identity.claim] = max(entry.at, newest.get(identity.claim, entry.at))
    claims = sorted(facts_by_claim, key=lambda claim: newest[claim], reverse=True)
    return [facts_by_claim[claim] for claim in claims]


def _identities_in(entry: Entry) -> Iterator[NodeNames]:
    match entry:
        case LaunchEntry() | RemovalEntry():
            yield _identity(entry.facts)
        case CommandEntry():
            yield from (NodeNames(candidate.claim, candidate.node) for candidate in entry.candidates)
            yield from (NodeNames(purchase.claim) for purchase in entry.replacements)
        case PlanEntry():
            yield from (NodeNames(purchase.claim) for purchase in entry.purchases)
        case RefusalEntry():
            yield NodeNames(entry.claim)
        case CommandEndEntry():
            yield from (NodeNames(claim) for claim in (*entry.accepted, *entry.refused))


def _identity(facts: RecordedNode) -> NodeNames:
    return NodeNames(facts.claim, facts.node, facts.instance)


@dataclass(frozen=True, slots=True)
class Departure:
    """When a node left. Plans of that time may be for the pods that it lost."""

    began: datetime
    ended: datetime

    @classmethod
    def of(cls, asked_at: datetime | None, ended: datetime) -> Departure:
        """The time from the request to leave until shortly after the end."""
        return cls(asked_at or ended, ended + AFTERWARDS)

    @property
    def gone_at(self) -> datetime:
        """When the node was gone."""
        return self.ended - AFTERWARDS

    def has(self, entry: Entry) -> bool:
        """Whether the entry is a purchase in that time."""
        return isinstance(entry, PlanEntry) and bool(entry.purchases) and self.began <= entry.at <= self.ended
