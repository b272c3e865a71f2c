"""What happened in a window, from the record: launches, removals, refusals, interruptions, commands, and who did it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tenon.apis.reasons import camel_case
from tenon.ec2.instances.interruption import NoticeKind
from tenon.node.leave_text import command_of
from tenon.record.entries import (
    BlockedBy,
    CommandEndEntry,
    CommandEntry,
    Entry,
    LaunchEntry,
    PlanEntry,
    RefusalEntry,
    RemovalEntry,
)

UNKNOWN_ACTOR = "not recorded"
COMMANDS = "disruption commands"
_INTERRUPTIONS = frozenset(camel_case(notice) for notice in NoticeKind if notice.ends_node or notice.failed)


@dataclass(frozen=True, slots=True)
class EntryGroup:
    """What has the same key: how many there are, and their sums."""

    key: tuple[str, ...]
    count: int
    dollars: float = 0.0
    pods: int = 0
    seconds: float = 0.0
    """The sum of their lifetimes, or of their waits."""
    last_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Carried:
    """A disruption command, and its end if it has ended."""

    start: CommandEntry | None
    end: CommandEndEntry | None

    @property
    def at(self) -> datetime:
        """When it started, or else when it ended."""
        first = self.start or self.end
        assert first is not None
        return first.at

    @property
    def command(self) -> str:
        """Its ID."""
        first = self.start or self.end
        assert first is not None
        return first.command

    @property
    def reason(self) -> str:
        """Such as ``Underutilized``."""
        first = self.start or self.end
        assert first is not None
        return first.reason

    @property
    def predicted(self) -> float | None:
        """Dollars an hour that it should save; None if it is not known."""
        if self.end is not None and self.end.predicted is not None:
            return self.end.predicted
        return (self.start.predicted or None) if self.start is not None else None

    @property
    def reached(self) -> float | None:
        """Dollars an hour that it saves; None before its end, if it was undone, or if prices are not known."""
        return self.end.reached if self.end is not None and not self.end.failure else None

    @property
    def outcome(self) -> str:
        """What became of it, in a clause."""
        end = self.end
        if end is None:
            return "under way"
        if end.failure:
            return f"undone: {end.failure}"
        if end.refused:
            claim, why = min(end.refused.items())
            more = f" (and {len(end.refused) - 1} more)" if len(end.refused) > 1 else ""
            return f"{len(end.accepted)} left; {claim}{more} stayed: {why}"
        if end.outcome:
            return end.outcome
        return "carried out"


@dataclass(frozen=True, slots=True)
class Happened:
    """All that the record says about a window."""

    since: datetime
    until: datetime
    plans: int
    planned_pods: int
    launches: Sequence[LaunchEntry]
    removals: Sequence[RemovalEntry]
    """Of nodes."""
    unlaunched: Sequence[RemovalEntry]
    """The ends of NodeClaims that never had an instance: no node was removed."""
    refusals: Sequence[RefusalEntry]
    commands: Sequence[Carried]
    actors: Sequence[EntryGroup]
    """By actor and by what it did."""

    @property
    def length(self) -> timedelta:
        """How long the window is."""
        return self.until - self.since

    @property
    def interruptions(self) -> list[RemovalEntry]:
        """The removals because EC2 ended the instance, was about to, or reported that it fails."""
        return [removal for removal in self.removals if camel_case(removal.reason) in _INTERRUPTIONS]

    @property
    def launched(self) -> list[EntryGroup]:
        """Launches by NodePool, capacity type and instance type, the most frequent first. Dollars are hourly prices."""
        facts = ((entry.facts, entry.at) for entry in self.launches)
        return _grouped(
            ((node.pool, node.capacity_type, node.instance_type), node.price, 0, 0.0, at) for node, at in facts
        )

    @property
    def removed(self) -> list[EntryGroup]:
        """Removals by reason, the most frequent first. Dollars are what the nodes cost in their lives."""
        return _grouped(
            ((camel_case(entry.reason),), entry.cost, entry.pods, _lived(entry).total_seconds(), entry.at)
            for entry in self.removals
        )

    @property
    def blocked_drains(self) -> list[tuple[RemovalEntry, BlockedBy]]:
        """What kept drains that have ended, and of which node, the longest first."""
        blocks = [(entry, block) for entry in self.removals for block in entry.blocked_by]
        return sorted(blocks, key=lambda item: (-item[1].seconds, item[1].since))

    @property
    def drain_blockers(self) -> list[EntryGroup]:
        """What kept these drains, with how many, the most frequent first. Seconds are how long the nodes waited."""
        return _grouped(
            ((block.cause,), 0.0, block.pod_count, block.seconds, block.since) for _, block in self.blocked_drains
        )

    @property
    def refused(self) -> list[EntryGroup]:
        """Refusals by code and offering, the most frequent first."""
        return _grouped(
            ((entry.code, offering), 0.0, 0, 0.0, entry.at)
            for entry in self.refusals
            for offering in entry.offerings or [f"any offering of NodePool {entry.pool}"]
        )

    @property
    def predicted_saving(self) -> float:
        """Dollars an hour that the ended commands should save, of those whose saving was measured."""
        return sum(carried.predicted or 0.0 for carried in self.commands if carried.reached is not None)

    @property
    def reached_saving(self) -> float:
        """Dollars an hour that the same commands save."""
        return sum(carried.reached or 0.0 for carried in self.commands)


def happened(entries: Iterable[Entry], since: datetime, until: datetime) -> Happened:
    """Sort the entries of a window."""
    launches, refusals, plans = [], [], []
    removals: list[RemovalEntry] = []
    unlaunched: list[RemovalEntry] = []
    starts: dict[str, CommandEntry] = {}
    ends: dict[str, CommandEndEntry] = {}
    actors: Counter[tuple[str, str]] = Counter()
    last_at: dict[tuple[str, str], datetime] = {}
    for entry in entries:
        if not since <= entry.at <= until:
            continue
        match entry:
            case LaunchEntry():
                launches.append(entry)
            case RemovalEntry():
                (removals if entry.had_instance else unlaunched).append(entry)
            case RefusalEntry():
                refusals.append(entry)
            case CommandEntry():
                starts[_run_of(entry)] = entry
            case CommandEndEntry():
                ends[_run_of(entry)] = entry
                continue  # its start counts
            case PlanEntry():
                plans.append(entry)
            case _:
                continue  # no one did it, such as what pods cost, or its commands say it
        deed = (_actor(entry), _deed(entry))
        actors[deed] += 1
        last_at[deed] = max(entry.at, last_at.get(deed, entry.at))
    commands = [Carried(starts.get(name), ends.get(name)) for name in {**starts, **ends}]
    return Happened(
        since=since,
        until=until,
        plans=len(plans),
        planned_pods=sum(plan.pods for plan in plans),
        launches=sorted(launches, key=lambda entry: entry.at),
        removals=sorted(removals, key=lambda entry: entry.at),
        unlaunched=sorted(unlaunched, key=lambda entry: entry.at),
        refusals=sorted(refusals, key=lambda entry: entry.at),
        commands=sorted(commands, key=lambda carried: carried.at),
        actors=[EntryGroup(deed, count, last_at=last_at[deed]) for deed, count in _most_first(actors)],
    )


def _run_of(entry: CommandEntry | CommandEndEntry) -> str:
    """What the entries of one command have in common: the same nodes may get a command with the same ID again."""
    return entry.id.partition("/")[2] or entry.command


def _actor(entry: Entry) -> str:
    """Who did it. Each disruption command is an actor of its own, which people do not want to tell apart."""
    if command_of(entry.actor):
        return COMMANDS
    return entry.actor or UNKNOWN_ACTOR


def _deed(entry: Entry) -> str:
    match entry:
        case LaunchEntry():
            return "launch"
        case RemovalEntry():
            return f"{'removal' if entry.had_instance else 'end before launch'}: {camel_case(entry.reason)}"
        case RefusalEntry():
            return f"refused launch: {entry.code}"
        case CommandEntry() | CommandEndEntry():
            return f"command: {entry.reason}"
        case _:
            return "plan"


def _lived(entry: RemovalEntry) -> timedelta:
    start, end = entry.launched_at, entry.terminated_at or entry.at
    return end - start if start is not None else timedelta()


def _most_first(counts: Counter[tuple[str, str]]) -> list[tuple[tuple[str, str], int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _grouped(items: Iterable[tuple[tuple[str, ...], float, int, float, datetime]]) -> list[EntryGroup]:
    groups: dict[tuple[str, ...], list[tuple[float, int, float, datetime]]] = defaultdict(list)
    for key, dollars, pods, seconds, at in items:
        groups[key].append((dollars, pods, seconds, at))
    return sorted(
        (
            EntryGroup(
                key=key,
                count=len(members),
                dollars=sum(dollars for dollars, _, _, _ in members),
                pods=sum(pods for _, pods, _, _ in members),
                seconds=sum(seconds for _, _, seconds, _ in members),
                last_at=max(at for _, _, _, at in members),
            )
            for key, members in groups.items()
        ),
        key=lambda group: (-group.count, group.key),
    )
