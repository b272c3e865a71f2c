"""Finds the entries that answer a question about a node, a pod, a NodePool or a command."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tenon.node.leave_text import command_of
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


@dataclass(frozen=True)
class EntryQuery:
    """Which entries are wanted. Empty fields want all."""

    name: str = ""
    """A NodeClaim, Node, instance, pod, NodePool or command."""
    kinds: frozenset[str] = frozenset()
    reason: str = ""
    """Of a command or removal, or the code of a refusal; in any case, and with or without its words joined."""
    pool: str = ""
    unlaunched: bool = False
    """Also NodeClaims that ended before they had an instance, whatever they are asked about."""

    def leaves_out(self, entry: Entry, subject: Subject | None) -> bool:
        """Return whether the entry is the end of a NodeClaim that never had an instance, which the question ignores.

        In a shortage there may be thousands, and no node was removed. The refusals of their launches are entries too.
        """
        if self.unlaunched or not isinstance(entry, RemovalEntry) or entry.had_instance:
            return False
        return subject is None or entry.facts.claim not in subject.names


@dataclass
class Subject:
    """The names that the thing of a question has, and those of the nodes that were planned for a pod.

    They are learned from entries as they come: the plan for a pod names the NodeClaim, whose launch and removal follow.
    """

    name: str
    names: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.names.add(self.name)

    def is_in(self, entry: Entry) -> bool:
        """Return whether the entry is about the subject."""
        is_named = not self.names.isdisjoint(_names(entry))
        if not is_named and (pods := self._own_pods(entry)):
            is_named = True
            self._learn_from_plan(entry, pods)
        return is_named

    def learn(self, entry: Entry) -> bool:
        """Take the other names of a node from an entry that has one of them. Return whether there are new ones."""
        facts = getattr(entry, "facts", None)
        if not isinstance(facts, RecordedNode):
            return False
        own_names = {name for name in (facts.claim, facts.node, facts.instance) if name}
        if self.name not in own_names or own_names <= self.names:
            return False
        self.names |= own_names
        return True

    def _own_pods(self, entry: Entry) -> set[str]:
        """The pods of the entry that are the subject: by their whole name, or without their namespace."""
        return {pod for pod in _pods(entry) if self.name in (pod, pod.partition("/")[2])}

    def _learn_from_plan(self, entry: Entry, pods: set[str]) -> None:
        if isinstance(entry, PlanEntry):
            self.names |= {purchase.claim for purchase in entry.purchases if not pods.isdisjoint(purchase.pods)}


def answers(question: EntryQuery, entries: Iterable[Entry], subject: Subject | None = None) -> Iterator[Entry]:
    """Yield the entries that the question wants, in their order. ``subject``: its name, with what is known of it."""
    if question.name and subject is None:
        subject = Subject(question.name)
    reason = _letters(question.reason)
    for entry in entries:
        if isinstance(entry, CostEntry | DisruptionEntry) and entry.kind not in question.kinds:
            continue  # nothing happened: it only says who used the nodes, or what `command` entries say again
        if question.kinds and entry.kind not in question.kinds:
            if subject is not None:
                subject.is_in(entry)  # a plan that is not shown still says which node a pod got
            continue
        if reason and _letters(reason_of(entry)) != reason:
            continue
        if question.pool and question.pool not in pools_of(entry):
            continue
        if subject is None or subject.is_in(entry):
            yield entry


def _letters(text: str) -> str:
    return text.replace("_", "").replace("-", "").replace(" ", "").casefold()


def _names(entry: Entry) -> set[str]:
    """The NodeClaims, Nodes, instances, NodePools and commands that an entry is about."""
    names: set[str] = set(pools_of(entry))
    match entry:
        case PlanEntry():
            names |= {purchase.claim for purchase in entry.purchases} | set(entry.on_existing)
        case CommandEntry():
            names |= {entry.command} | {purchase.claim for purchase in entry.replacements}
            names |= {name for candidate in entry.candidates for name in (candidate.claim, candidate.node)}
        case CommandEndEntry():
            names |= {entry.command, *entry.accepted, *entry.refused, *entry.replacements}
        case LaunchEntry() | RemovalEntry():
            names |= {entry.facts.claim, entry.facts.node, entry.facts.instance}
            names.add(command_of(entry.actor) or entry.actor)
        case RefusalEntry():
            names.add(entry.claim)
        case DisruptionEntry():
            names |= {*entry.refused, *(claim for command in entry.commands for claim in command.claims)}
    return names - {""}


def pools_of(entry: Entry) -> set[str]:
    """Return the names of the NodePools that an entry is about."""
    match entry:
        case PlanEntry():
            return {purchase.pool for purchase in entry.purchases}
        case CommandEntry():
            return {candidate.pool for candidate in entry.candidates} | {part.pool for part in entry.replacements}
        case LaunchEntry() | RemovalEntry():
            return {entry.facts.pool}
        case RefusalEntry():
            return {entry.pool}
        case CostEntry():
            return {row.pool for row in entry.rows}
    return set()


def _pods(entry: Entry) -> Iterator[str]:
    if isinstance(entry, PlanEntry):
        for purchase in entry.purchases:
            yield from purchase.pods
        for pods in entry.on_existing.values():
            yield from pods
        yield from entry.unschedulable
    if isinstance(entry, CommandEntry):
        for purchase in entry.replacements:
            yield from purchase.pods


def reason_of(entry: Entry) -> str:
    """Return the reason of a command or removal, or the code of a refusal; empty for other entries."""
    match entry:
        case CommandEntry() | CommandEndEntry() | RemovalEntry():
            return entry.reason
        case RefusalEntry():
            return entry.code
        case TeardownEntry():
            return "Teardown"
    return ""
