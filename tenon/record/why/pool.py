"""Answers about a NodePool: which NodeClaims it got and why, what EC2 refused, what left and why, what holds it up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tenon.messages.node import Removal
from tenon.money import per_hour, price_text
from tenon.node.leave_text import removal_text
from tenon.record.entries import CommandEntry, Entry, LaunchEntry, PlanEntry, RefusalEntry, RemovalEntry
from tenon.record.why.answer import Answer, FactSource, Line, sections_of
from tenon.record.why.node_life import NodeEvent
from tenon.sentences import counted, first_few, shortened

MAX_NAMED = 10
MAX_MESSAGE = 300
STATE = "What holds it up?"
CREATED = "Which NodeClaims were created for it, and why?"
REFUSED = "What was refused?"
REMOVED = "What left, and why?"
COMMANDS = "What did disruption decide?"
NO_PLACE = "Which pods does it not take?"


@dataclass(frozen=True, slots=True)
class PoolSources:
    """All that is known of one NodePool."""

    pool: str
    exists: bool = False
    conditions: Sequence[str] = ()
    """Its conditions that are not True, in words."""
    nodes: int = 0
    """How many NodeClaims it has."""
    entries: Sequence[Entry] = ()
    events: Sequence[NodeEvent] = ()
    waits: Sequence[str] = ()
    """What the provisioner's workflow says about it: sentences."""
    kubernetes_answered: bool = True
    """Otherwise it is not known whether the NodePool exists."""


def why_pool(sources: PoolSources) -> Answer:
    """Answer all questions about a NodePool."""
    entries = sorted(sources.entries, key=lambda entry: entry.at)
    questions = (
        (STATE, list(_state(sources))),
        (CREATED, list(_created(entries, sources.pool))),
        (NO_PLACE, list(_no_place(entries, sources.pool))),
        (REFUSED, list(_refused(entries))),
        (REMOVED, list(_removed(entries))),
        (COMMANDS, list(_commands(entries, sources.pool))),
    )
    sections = sections_of(questions)
    headline = f"NodePool {sources.pool} has {counted(sources.nodes, 'NodeClaim')}"
    if not sources.exists:
        headline = f"NodePool {sources.pool} does not exist any more"
    if not sources.kubernetes_answered:
        headline = f"Kubernetes did not answer, so it is not known whether NodePool {sources.pool} exists"
    return Answer("nodepool", sources.pool, headline if sections or sources.exists else "", sections)


def _state(sources: PoolSources) -> Iterator[Line]:
    yield from (Line(text, FactSource.KUBERNETES) for text in sources.conditions)
    yield from (Line(text, FactSource.TEMPORAL) for text in sources.waits)
    for event in sorted(sources.events, key=lambda event: event.at)[-MAX_NAMED:]:
        yield Line(f"{event.reason}: {event.message}", FactSource.KUBERNETES, event.at)


def _created(entries: Sequence[Entry], pool: str) -> Iterator[Line]:
    lines = []
    instances = {entry.facts.claim: entry.facts.instance for entry in entries if isinstance(entry, LaunchEntry)}
    refused_claims = {entry.claim for entry in entries if isinstance(entry, RefusalEntry)}
    for entry in entries:
        if isinstance(entry, PlanEntry):
            creator, purchases = f"batch {entry.batch}", entry.purchases
        elif isinstance(entry, CommandEntry):
            creator, purchases = f"command {entry.command} ({entry.reason})", entry.replacements
        else:
            continue
        for purchase in purchases:
            if purchase.pool == pool:
                pods = f"{counted(purchase.pod_count, 'pod')}"
                pods += f" ({first_few(purchase.pods, 3)})" if purchase.pods else ""
                node = f"{purchase.claim}, {purchase.instance_type} at {per_hour(purchase.price)}"
                if purchase.claim in instances:
                    end = f"; EC2 launched {instances[purchase.claim]}"
                else:
                    end = "; EC2 refused to launch it" if purchase.claim in refused_claims else ""
                lines.append(Line(f"{creator} created {node}, for {pods}{end}", FactSource.RECORD, entry.at))
    if len(lines) > MAX_NAMED:
        yield Line(f"{counted(len(lines), 'NodeClaim')} in all, of which these are the last", FactSource.RECORD)
    yield from lines[-MAX_NAMED:]


def _no_place(entries: Sequence[Entry], pool: str) -> Iterator[Line]:
    """The newest sentence about the NodePool for each of the last pods."""
    newest: dict[str, Line] = {}
    for entry in entries:
        for key, reason in entry.unschedulable.items() if isinstance(entry, PlanEntry) else ():
            if (clause := reason.clause_of(pool)) is not None:
                newest.pop(key, None)
                newest[key] = Line(f"{key}: {clause}", FactSource.RECORD, entry.at)
    yield from list(newest.values())[-MAX_NAMED:]


def _refused(entries: Sequence[Entry]) -> Iterator[Line]:
    refusals = [entry for entry in entries if isinstance(entry, RefusalEntry)]
    last = {entry.code: entry for entry in refusals}
    for code, count in Counter(entry.code for entry in refusals).most_common(MAX_NAMED):
        message = shortened(last[code].message, MAX_MESSAGE)
        text = f"{code}: {counted(count, 'refusal')}"
        yield Line(f"{text}; the last: {message}", FactSource.RECORD, last[code].at)


def _removed(entries: Sequence[Entry]) -> Iterator[Line]:
    ends = [entry for entry in entries if isinstance(entry, RemovalEntry)]
    removals = [entry for entry in ends if entry.had_instance]
    for reason, count in Counter(entry.reason for entry in removals).most_common(MAX_NAMED):
        cost = sum(entry.cost for entry in removals if entry.reason == reason)
        yield Line(f"{reason}: {counted(count, 'node')}, which cost {price_text(cost)} in all", FactSource.RECORD)
    if unlaunched := len(ends) - len(removals):
        yield Line(f"{counted(unlaunched, 'NodeClaim')} ended before launch, which cost nothing", FactSource.RECORD)
    for entry in removals[-MAX_NAMED:]:
        node = entry.facts.node or entry.facts.claim
        removal = Removal(reason=entry.reason, detail=shortened(entry.detail, MAX_MESSAGE), actor=entry.actor)
        yield Line(f"{node} left, {removal_text(removal)}", FactSource.RECORD, entry.at)


def _commands(entries: Sequence[Entry], pool: str) -> Iterator[Line]:
    commands = [entry for entry in entries if isinstance(entry, CommandEntry)]
    for entry in commands[-MAX_NAMED:]:
        nodes = [item.node or item.claim for item in entry.candidates if item.pool == pool]
        saving = f", to save {per_hour(entry.predicted)}" if entry.predicted else ""
        text = f"command {entry.command}: {entry.decision or 'remove'} {first_few(nodes, 3)}, {entry.reason}{saving}"
        yield Line(text, FactSource.RECORD, entry.at)
