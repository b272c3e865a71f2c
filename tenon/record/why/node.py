"""Answers about a node: why it was bought, what happened to it, why and by whom it was removed, what came instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TypeVar

from tenon.apis import labels
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.pod_workload import workload_of
from tenon.kube.timestamps import parse_instant
from tenon.messages.explanation import Explanation
from tenon.messages.node import Removal
from tenon.money import per_hour, price_text
from tenon.node.leave_text import recorded, removal_text
from tenon.record.entries import (
    BlockedBy,
    CommandEndEntry,
    CommandEntry,
    LaunchEntry,
    PlanEntry,
    RecordedPurchase,
    RefusalEntry,
    RemovalEntry,
)
from tenon.record.removals import blocked_text
from tenon.record.why.answer import Answer, FactSource, Line, clock, sections_of
from tenon.record.why.mentions import Departure
from tenon.record.why.node_life import NodeSources
from tenon.sentences import counted, first_few

_E = TypeVar("_E")
NAMED_PODS = 10
MOST_REPLACEMENTS = 5
"""How many nodes are named that plans bought while a node left. In a shortage there may be hundreds."""
BOUGHT, CREATED = "Why was it bought?", "Why was it created?"
"""The second is asked about a NodeClaim that never had an instance."""
LAUNCHED = "Who launched it, and at what price?"
HAPPENED = "What happened?"
REMOVED = "Why does it leave, and by whose wish?"
REPLACED = "What came in its place?"


def why_node(sources: NodeSources) -> Answer:
    """Answer all questions about a node."""
    node = _Node(sources)
    questions = (
        (BOUGHT if node.had_instance() else CREATED, list(node.purchase())),
        (LAUNCHED, list(node.launches())),
        (HAPPENED, node.timeline()),
        (REMOVED, list(node.departure())),
        (REPLACED, list(node.replacements())),
    )
    hints = (
        [f"The name was also that of {first_few(list(sources.namesakes), 5)}: ask for these NodeClaims by name"]
        if sources.namesakes
        else []
    )
    sections = sections_of(questions)
    return Answer("node", sources.identity.claim, node.headline() if sections else "", sections, hints)


class _Node:
    """One node while it is described."""

    def __init__(self, sources: NodeSources) -> None:
        self._sources = sources
        self._claim = sources.identity.claim
        self._entries = sorted(sources.entries, key=lambda entry: entry.at)
        self._life = sources.life
        launches, removals = self._of(LaunchEntry), self._of(RemovalEntry)
        self._launches = [entry for entry in launches if entry.facts.claim == self._claim]
        self._removal = next((entry for entry in reversed(removals) if entry.facts.claim == self._claim), None)
        self._commands = self._of(CommandEntry)

    def _of(self, kind: type[_E]) -> list[_E]:
        return [entry for entry in self._entries if isinstance(entry, kind)]

    def headline(self) -> str:
        """What it is, and whether it is still there."""
        identity, life = self._sources.identity, self._life
        node = identity.node or (life.node if life is not None else "")
        instance = identity.instance or (life.instance if life is not None else "")
        others = ", ".join(filter(None, (node, instance)))
        text = f"NodeClaim {self._claim}" + (f" ({others})" if others else "")
        pool = self._pool()
        text += f" of NodePool {pool}" if pool else ""
        never = "" if self.had_instance() else ", and never had an instance"
        if self._removal is not None:
            return f"{text} is gone since {clock(self._removal.terminated_at or self._removal.at)}{never}"
        if self._life is not None:
            return f"{text} is {f'gone{never}' if self._life.stage == 'ended' else self._life.stage}"
        if self._sources.claim is not None:
            return f"{text} exists"
        return f"{text} is not in the cluster"

    def had_instance(self) -> bool:
        """Whether EC2 launched an instance, as far as is known. Then it was bought."""
        facts = [self._removal.facts] if self._removal is not None else []
        facts += [entry.facts for entry in self._launches]
        instances = [self._sources.identity.instance, *(entry.instance for entry in facts)]
        instances += [self._life.instance] if self._life is not None else []
        instances += [self._sources.claim.instance_id] if self._sources.claim is not None else []
        return any(instances)

    def _pool(self) -> str:
        pools = [self._life.pool] if self._life is not None else []
        pools += [entry.facts.pool for entry in self._launches]
        pools += [self._removal.facts.pool] if self._removal is not None else []
        pools += [self._sources.claim.pool] if self._sources.claim is not None else []
        pools += [purchase.pool for _, purchase in self._purchases()]
        return next(filter(None, pools), "")

    def _purchases(self) -> Iterator[tuple[PlanEntry | CommandEntry, RecordedPurchase]]:
        for entry in self._entries:
            if isinstance(entry, PlanEntry | CommandEntry):
                purchases = entry.purchases if isinstance(entry, PlanEntry) else entry.replacements
                yield from ((entry, purchase) for purchase in purchases if purchase.claim == self._claim)

    def purchase(self) -> Iterator[Line]:
        """Why it was bought: from the best source, because all repeat what the plan said."""
        purchases = list(self._purchases())
        for entry, purchase in purchases:
            yield from _purchase_lines(entry, purchase)
        if purchases:
            return
        for launch in self._launches[:1]:
            if launch.why.lines:
                yield from _explanation(launch.why.lines, launch.actor, FactSource.RECORD, launch.at)
                return
        claim = self._sources.claim
        if self._life is not None and self._life.explanation:
            yield from _explanation(self._life.explanation, "", FactSource.TEMPORAL, None)
        elif claim is not None and claim.annotations.get(labels.EXPLANATION):
            explanation = Explanation.of(claim.annotations[labels.EXPLANATION])
            yield from _explanation(explanation.lines, "", FactSource.KUBERNETES, claim_created(claim))

    def launches(self) -> Iterator[Line]:
        """The refusals and the launches."""
        for entry in self._entries:
            if isinstance(entry, RefusalEntry):
                offerings = f" ({first_few(entry.offerings, 3)})" if entry.offerings else ""
                yield Line(f"refused: {entry.code}{offerings}: {entry.message}", FactSource.RECORD, entry.at)
            elif isinstance(entry, LaunchEntry) and entry in self._launches:
                yield Line(_launch_text(entry), FactSource.RECORD, entry.launched_at or entry.at)
        if self._launches:
            return
        claim, life = self._sources.claim, self._life
        if life is not None and life.instance:
            price = f" at {per_hour(life.price)}" if life.price else ""
            text = f"EC2 launched {life.instance} ({life.offering}){price}, by workflow {life.workflow}"
            yield Line(text, FactSource.TEMPORAL, life.launched_at)
        elif self._removal is not None and self._removal.facts.instance:
            facts = self._removal.facts
            offering = f"{facts.instance_type}, {facts.zone}, {facts.capacity_type}"
            text = f"EC2 launched {facts.instance} ({offering}) at {per_hour(facts.price)}"
            yield Line(text, FactSource.RECORD, self._removal.launched_at)
        elif claim is not None and claim.instance_id:
            keys = (labels.INSTANCE_TYPE, labels.ZONE, labels.CAPACITY_TYPE)
            offering = ", ".join(filter(None, (claim.labels.get(key, "") for key in keys)))
            yield Line(f"EC2 launched {claim.instance_id} ({offering})", FactSource.KUBERNETES, claim.launched_at)

    def timeline(self) -> list[Line]:
        """What happened, from the workflow, or from the last lines that the record has; and what events say."""
        lines = [
            Line(f"{event.reason}: {event.message}", FactSource.KUBERNETES, event.at) for event in self._sources.events
        ]
        if self._life is not None and self._life.timeline:
            lines += [Line(text, FactSource.TEMPORAL, at) for at, text in self._life.timeline]
        elif self._removal is not None:
            lines += map(_timeline_line, self._removal.timeline)
        lines.sort(key=lambda line: (line.at is None, line.at or datetime.min.replace(tzinfo=UTC)))
        if self._life is not None and self._life.blocked:
            lines.append(Line(f"it waits: {self._life.blocked}", FactSource.TEMPORAL))
        return lines

    def departure(self) -> Iterator[Line]:
        """Why it leaves, and who wanted it."""
        removal = self._removal
        ends = {end.command: end for end in self._of(CommandEndEntry)}
        for command in self._commands:
            if any(candidate.claim == self._claim for candidate in command.candidates):
                yield from _command_lines(command, ends.get(command.command), self._claim)
        if removal is not None:
            text = removal_text(Removal(reason=removal.reason, detail=removal.detail, actor=removal.actor))
            yield Line(text, FactSource.RECORD, removal.asked_at or removal.at)
            pods = f"{counted(removal.pods, 'pod')} moved, and it cost {price_text(removal.cost)} in all"
            yield Line(pods, FactSource.RECORD, removal.terminated_at)
            yield from _blocked_lines(removal.blocked_by, FactSource.RECORD)
        elif self._life is not None and self._life.removal:
            yield Line(self._life.removal, FactSource.TEMPORAL, self._life.asked_at)
            if self._life.cost:
                yield Line(f"it cost {price_text(self._life.cost)} in all", FactSource.TEMPORAL)
            yield from _blocked_lines(self._life.blocked_by, FactSource.TEMPORAL)
        elif self._sources.claim is not None:
            claim = self._sources.claim
            yield from (Line(removal_text(reason), FactSource.KUBERNETES) for reason in recorded(claim.annotations))

    def replacements(self) -> Iterator[Line]:
        """The nodes that a command bought for it, and those that plans bought while its pods moved."""
        if self._removal is None and (self._life is None or not self._life.removal):
            return
        for entry in self._entries:
            if isinstance(entry, CommandEntry) and any(item.claim == self._claim for item in entry.candidates):
                for purchase in entry.replacements:
                    yield Line(f"command {entry.command} created {_created(purchase)}", FactSource.RECORD, entry.at)
                if not entry.replacements:
                    text = f"command {entry.command} created nothing: its pods have room on other nodes"
                    yield Line(text, FactSource.RECORD, entry.at)
        yield from self._planned_meanwhile()

    def _planned_meanwhile(self) -> Iterator[Line]:
        """The first NodeClaims that plans created for its workloads while it left and soon after, and how many others.

        The pods that come in place of evicted ones have new names. Plans of that time are for other pods too.
        """
        departure = self.departure_time()
        if departure is None:
            return
        workloads = self._workloads()
        created = [
            (entry, purchase)
            for entry in self._entries
            if isinstance(entry, PlanEntry) and departure.has(entry)
            for purchase in entry.purchases
            if purchase.claim != self._claim and not workloads.isdisjoint(map(workload_of, purchase.pods))
        ]
        for entry, purchase in created[:MOST_REPLACEMENTS]:
            when = "while" if entry.at <= departure.gone_at else "soon after"
            text = f"batch {entry.batch}, planned {when} it left, created {_created(purchase)}"
            yield Line(text, FactSource.RECORD, entry.at)
        if len(created) > MOST_REPLACEMENTS:
            others = counted(len(created) - MOST_REPLACEMENTS, "other NodeClaim")
            text = f"plans of that time created {others} for its workloads: `tenon history --kind plan` shows them"
            yield Line(text, FactSource.RECORD)

    def _workloads(self) -> frozenset[str]:
        """What its pods were of: those that it evicted, and those that plans and commands placed there."""
        workloads = set(self._removal.workloads if self._removal is not None else ())
        workloads.update(self._life.workloads if self._life is not None else ())
        for _, purchase in self._purchases():
            workloads.update(map(workload_of, purchase.pods))
        names = self._sources.identity.names
        for entry in self._of(PlanEntry):
            for name in names & entry.on_existing.keys():
                workloads.update(map(workload_of, entry.on_existing[name]))
        return frozenset(workloads)

    def departure_time(self) -> Departure | None:
        """When its pods moved; None if the record does not say."""
        removal = self._removal
        if removal is not None:
            return Departure.of(removal.asked_at, removal.terminated_at or removal.at)
        if self._life is not None and self._life.asked_at is not None and self._life.timeline:
            return Departure.of(self._life.asked_at, self._life.timeline[-1][0])
        return None


def departure_of(sources: NodeSources) -> Departure | None:
    """When the node's pods moved, for reading the plans of that time."""
    return _Node(sources).departure_time()


def claim_created(claim: ClaimRecord) -> datetime | None:
    """When the NodeClaim was created."""
    return parse_instant((claim.body.get("metadata") or {}).get("creationTimestamp"))


def _purchase_lines(entry: PlanEntry | CommandEntry, purchase: RecordedPurchase) -> Iterator[Line]:
    pods = f"{counted(purchase.pod_count, 'pod')}"
    pods += f": {first_few(purchase.pods, NAMED_PODS)}" if purchase.pods else ""
    if isinstance(entry, PlanEntry):
        yield Line(
            f"batch {entry.batch} of {entry.actor or 'the provisioner'} created it for {pods}",
            FactSource.RECORD,
            entry.at,
        )
    else:
        replaced = first_few([candidate.node or candidate.claim for candidate in entry.candidates], 5)
        text = f"command {entry.command} ({entry.reason}) created it in place of {replaced}, for {pods}"
        yield Line(text, FactSource.RECORD, entry.at)
    if purchase.price:
        yield Line(f"planned as {purchase.instance_type} at {per_hour(purchase.price)}", FactSource.RECORD, entry.at)
    yield from (Line(line, FactSource.RECORD, entry.at) for line in purchase.why.lines)


def _explanation(lines: Iterable[str], actor: str, source: FactSource, at: datetime | None) -> Iterator[Line]:
    if actor:
        yield Line(f"created by {actor}", source, at)
    yield from (Line(line, source, at) for line in lines)


def _launch_text(entry: LaunchEntry) -> str:
    facts = entry.facts
    price = f" at {per_hour(facts.price)}" if facts.price else ""
    text = f"EC2 launched {facts.instance} ({facts.instance_type}, {facts.zone}, {facts.capacity_type}){price}"
    if entry.offered:
        text += f", chosen from {counted(entry.offered, 'offering')}"
    if entry.attempt > 1:
        text += f", in attempt {entry.attempt}"
    if entry.actor:
        text += f", for {entry.actor}"
    return text + (f", by workflow {entry.workflow}" if entry.workflow else "")


def _timeline_line(line: str) -> Line:
    written, _, text = line.partition(" ")
    at = parse_instant(written)
    return Line(text, FactSource.RECORD, at) if at is not None else Line(line, FactSource.RECORD)


def _command_lines(command: CommandEntry, end: CommandEndEntry | None, claim: str) -> Iterator[Line]:
    nodes = counted(len(command.candidates), "node")
    saving = f", to save {per_hour(command.predicted)}" if command.predicted else ""
    text = f"command {command.command} decided to {command.decision or 'remove'} {nodes}: {command.reason}{saving}"
    yield Line(text, FactSource.RECORD, command.at)
    yield from (Line(line, FactSource.RECORD, command.at) for line in command.why.splitlines() if line)
    if end is None:
        return
    if end.approval is not None and end.approval.by:
        reason = f": {end.approval.reason}" if end.approval.reason else ""
        text = f"{end.approval.by} {end.approval.answer} the command{reason}"
        yield Line(text, FactSource.RECORD, end.approval.at)
    if end.failure:
        yield Line(f"the command was undone: {end.failure}", FactSource.RECORD, end.at)
    elif claim in end.refused:
        yield Line(f"the node stayed: {end.refused[claim]}", FactSource.RECORD, end.at)
    elif end.reached is not None:
        predicted = f", and {per_hour(end.predicted)} was predicted" if end.predicted is not None else ""
        yield Line(f"the command saves {per_hour(end.reached)}{predicted}", FactSource.RECORD, end.at)


def _created(purchase: RecordedPurchase) -> str:
    price = f" at {per_hour(purchase.price)}" if purchase.price else ""
    pods = counted(purchase.pod_count, "pod") + (f": {first_few(purchase.pods, 3)}" if purchase.pods else "")
    return f"{purchase.claim} ({purchase.instance_type}{price}) for {pods}"


def _blocked_lines(blocks: Iterable[BlockedBy], source: FactSource) -> Iterator[Line]:
    return (Line(f"its drain was blocked: {blocked_text(block)}", source, block.since) for block in blocks)
