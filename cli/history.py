"""``tenon history``: what happened to a node, a pod, a NodePool or a cluster, also after they are gone.

It reads the record and Temporal alike, and says which of them ends where.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import chain, count
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.table import Table
from rich.text import Text

from activities.clock import utc_now
from cli.application import create_app, examples
from cli.console import output_console
from cli.context import Context, ContextError, resolve
from cli.missing_extra import missing
from cli.name_completion import pool_names
from cli.record_faults import without_zone
from cli.record_source import RecordError, RecordOption, RecordSource, chosen_record, open_record
from cli.record_times import SinceOption, UntilOption, instant_of
from tenon.errors import TenonError
from tenon.kube.node_names import AmbiguousNameError, may_stand_for, whole_name, without_domain
from tenon.kube.timestamps import time_text
from tenon.record.entries import Entry, EntryKind
from tenon.record.entry_sentences import about, sentence, total_price, why
from tenon.record.history import EntryQuery, Subject, answers
from tenon.record.lines import distinct
from tenon.record.why.mentions import whole_nodes_in
from tenon.sentences import counted, lasting

if TYPE_CHECKING:
    from cli.history_of_workflows import WorkflowHistory

app = create_app()

NO_RECORD = (
    "No record is read, so plans, launches and refusals are missing: name it with --record or TENON_RECORD "
    "(docs/record.md)"
)
NARROW = 120
"""Columns of a terminal below which the reason has no column of its own."""
NARROW_NAME = 20
"""Columns of a name there: that of a node of EKS has forty."""
LATE = timedelta(hours=1)
"""A record that begins later than this after the time that was asked for may have been cut."""

Name = Annotated[
    str | None,
    typer.Argument(metavar="NODE|POD|POOL|COMMAND", help="A Node, NodeClaim, instance, pod, NodePool or command."),
]
Kinds = Annotated[
    list[EntryKind] | None,
    typer.Option("--kind", metavar="KIND", help="Only this kind of entry, such as removal; may be repeated."),
]


class HistoryError(TenonError):
    """Nothing can be read. The message is one sentence."""


@dataclass
class HistoryWindow:
    """The time that was asked for."""

    since: datetime
    until: datetime
    now: datetime


@dataclass
class HistorySources:
    """Where entries come from, and what of it is missing."""

    record: RecordSource | None = None
    workflows: list[Entry] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    record_begins: datetime | None = None
    """The time of the oldest entry that the record has in the window."""
    unplaced: int = 0
    """The entries of the record that have a time without a zone. Each reading counts them again."""
    left_out: int = 0
    """The ends of NodeClaims without an instance that match, and are not shown."""

    def entries(self, window: HistoryWindow) -> Iterator[Entry]:
        """Yield what is recorded, then what only Temporal has; each once."""
        return distinct(chain(self._recorded(window), self.workflows))

    def _recorded(self, window: HistoryWindow) -> Iterator[Entry]:
        if self.record is None:
            return
        self.unplaced = 0
        for entry in self.record.entries(window.since, window.until):
            if entry.at.tzinfo is None:
                self.unplaced += 1
                continue
            if self.record_begins is None or entry.at < self.record_begins:
                self.record_begins = entry.at
            yield entry


@app.command(
    epilog=examples(
        "tenon history ip-10-0-1-7.ec2.internal --since 30d",
        "tenon history shop/web-5d7c9 --record s3://BUCKET/tenon",
        "kubectl logs deploy/tenon | tenon history --record - --kind removal",
    )
)
def history(
    name: Name = None,
    since: SinceOption = "7d",
    until: UntilOption = None,
    kind: Kinds = None,
    reason: Annotated[str, typer.Option("--reason", help="Only this reason, such as Expired.")] = "",
    pool: Annotated[
        str, typer.Option("--pool", metavar="NAME", help="Only this NodePool.", autocompletion=pool_names)
    ] = "",
    unlaunched: Annotated[
        bool, typer.Option("--unlaunched", help="Also NodeClaims that ended before they had an instance.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100_000, help="The newest so many entries.")] = 1000,
    output: Annotated[
        Literal["table", "wide", "json"], typer.Option("--output", "-o", help="table, wide or json.")
    ] = "table",
    record: RecordOption = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="NAME", envvar="CLUSTER_NAME", help="Name of the cluster.")
    ] = None,
) -> None:
    """Show what happened, why and by whom: plans, launches, refusals, commands and removals.

    Nodes, pods and workflows may be gone: the record and Temporal still know them. Exit status 1: nothing is known.
    """
    try:
        now = utc_now()
        window = HistoryWindow(
            instant_of(since, now), instant_of(until, now) if until else now + timedelta(minutes=1), now
        )
        if not window.since < min(window.until, now):
            end = min(window.until, now)
            raise HistoryError(f"The time from {time_text(window.since)} to {time_text(end)} has no time in the past.")
        question = EntryQuery(name or "", frozenset(kind or ()), reason, pool, unlaunched)
        sources, newest = asyncio.run(_collect(question, window, cluster, record, limit))
    except (HistoryError, RecordError, AmbiguousNameError, ValueError) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    if output == "json":
        print(json.dumps([entry.model_dump(mode="json", exclude_none=True) for entry in newest], indent=2))
    elif newest:
        _print(newest, question.name, is_wide=output == "wide")
        if total := total_price(newest, question.kinds):
            output_console().print(total, highlight=False, soft_wrap=True)
    for note in sources.notes:
        print(f"{note}.", file=sys.stderr)
    if not newest and not sources.left_out:
        topic = f" about {name}" if name else ""
        when = time_text(window.since)
        print(f"Nothing{topic} is known since {when}.", file=sys.stderr)
        raise typer.Exit(1 if name else 0)


async def _collect(
    question: EntryQuery, window: HistoryWindow, cluster: str | None, record: str | None, limit: int
) -> tuple[HistorySources, list[Entry]]:
    """The newest entries in the order of time, and where they come from.

    Raises:
        AmbiguousNameError: the name of the question is that of several Nodes without their domain.
    """
    try:
        context: Context | None = resolve(cluster)
    except ContextError:
        context = None
    if context is not None:
        context.apply()
    sources = HistorySources()
    place = chosen_record(record)
    if place:
        sources.record = open_record(place, context.cluster if context is not None else "")
    else:
        sources.notes.append(NO_RECORD)
    subject = Subject(question.name) if question.name else None
    longer_names: set[str] = set()
    is_recorded = False
    if subject is not None and sources.record is not None:
        for entry in sources.record.entries(window.since, window.until):  # the last entry of a node has all its names
            subject.learn(entry)
            is_recorded = subject.is_in(entry) or is_recorded
            longer_names.update(node for node in whole_nodes_in(entry) if may_stand_for(subject.name, node))
    if subject is not None and not is_recorded:
        name = whole_name(subject.name, longer_names | await _in_temporal(subject.name, context))
        if name != subject.name:
            return await _collect(replace(question, name=name), window, cluster, record, limit)
    await _read_temporal(sources, question, subject, window, context)
    newest: list[tuple[datetime, int, Entry]] = []
    order, matching, unlaunched = count(), 0, 0
    for entry in answers(question, sources.entries(window), subject):
        if question.leaves_out(entry, subject):
            unlaunched += 1
            continue
        matching += 1
        heapq.heappush(newest, (entry.at, next(order), entry))
        if len(newest) > limit:
            heapq.heappop(newest)
    if sources.unplaced:
        sources.notes.append(without_zone(sources.unplaced))
    if unlaunched:
        claims = f"the ends of {counted(unlaunched, 'NodeClaim')} that never had an instance"
        sources.left_out = unlaunched
        sources.notes.append(f"Left out are {claims}: --unlaunched shows them")
    if matching > limit:
        sources.notes.append(f"These are the newest {limit} of {matching} entries: --limit shows more")
    if sources.record_begins is not None and sources.record_begins - window.since > LATE:
        begins = time_text(sources.record_begins)
        sources.notes.append(f"The oldest entry of the record in this time is of {begins}")
    return sources, [entry for _, _, entry in sorted(newest, key=lambda item: item[:2])]


async def _in_temporal(name: str, context: Context | None) -> set[str]:
    """The Node that Temporal knows by this name without its domain, or none."""
    if context is None or missing("worker"):
        return set()
    from temporalio.service import RPCError

    from cli.nodes.visibility import whole_name_in_temporal
    from worker.runtime.temporal.temporal_client import TemporalError, connect

    try:
        return {await whole_name_in_temporal(await connect(), context.cluster, name)} - {name}
    except (TemporalError, RPCError):
        return set()  # the reading that follows says that Temporal does not answer


async def _read_temporal(
    sources: HistorySources,
    question: EntryQuery,
    subject: Subject | None,
    window: HistoryWindow,
    context: Context | None,
) -> None:
    """Add what Temporal still has, and say what it does not have.

    Raises:
        HistoryError: neither a record nor a cluster is named, or Temporal does not answer and there is no record.
    """
    if context is None:
        if sources.record is None:
            raise HistoryError(
                "Which history? Name a record with --record, or a cluster with --cluster or CLUSTER_NAME."
            )
        sources.notes.append(
            "Temporal is not asked, because no cluster is named: name it with --cluster or CLUSTER_NAME"
        )
        return
    if missing("worker"):
        sources.notes.append("Temporal is not asked, because the extra `worker` is not installed here")
        return
    try:
        workflows = await _history_of_workflows(question, subject, window, context)
    except TenonError as error:
        if sources.record is None:
            raise HistoryError(f"Temporal does not answer, and no record is named: {error}") from None
        sources.notes.append(f"Only the record is shown, because Temporal does not answer: {str(error).rstrip('.')}")
        return
    sources.workflows = workflows.entries
    if subject is not None:
        subject.names |= workflows.other_names
    if workflows.is_cut:
        sources.notes.append("Temporal has more workflows than are read: ask for a shorter time")
    retention = workflows.retention
    if retention is not None and window.now - window.since > retention:
        sources.notes.append(
            f"Temporal keeps workflows for {lasting(retention)} after their end: what is older comes from the record"
        )


async def _history_of_workflows(
    question: EntryQuery, subject: Subject | None, window: HistoryWindow, context: Context
) -> WorkflowHistory:
    from temporalio.service import RPCError

    from cli.history_of_workflows import history_of_workflows
    from worker.runtime.temporal.temporal_client import connect, readable

    client = await connect()
    node_names = subject.names if subject is not None else ()
    try:
        return await history_of_workflows(client, context.cluster, question, node_names, window.since, window.until)
    except RPCError as error:
        raise HistoryError(readable(error)) from None


def _print(entries: list[Entry], name: str, *, is_wide: bool) -> None:
    console = output_console()
    is_narrow = console.width < NARROW and not is_wide
    is_file = not console.is_terminal
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("Time (UTC)", "Kind"):
        table.add_column(title, no_wrap=True)
    table.add_column("About", overflow="fold", max_width=NARROW_NAME if is_narrow else None)
    table.add_column("What", overflow="fold")
    if not is_narrow:
        table.add_column("Why", overflow="fold")
        table.add_column("By", overflow="fold")
    has_cluster = is_wide or len({entry.cluster for entry in entries}) > 1
    if has_cluster:
        table.add_column("Cluster", overflow="fold")
    if is_wide:
        table.add_column("Workflow", overflow="fold")
    for entry in entries:
        text, reason = sentence(entry, name, is_wide=is_wide), why(entry, is_wide=is_wide)
        subject = about(entry) if is_wide or is_file else without_domain(about(entry))
        row = [f"{entry.at.astimezone(UTC):%Y-%m-%d %H:%M:%S}", entry.kind, subject]
        if is_narrow:
            by = f" (by {entry.actor})" if entry.actor else ""
            row.append(f"{text}\n{reason}{by}".strip() if reason or by else text)
        else:
            row += [text, reason, entry.actor]
        row += [entry.cluster] if has_cluster else []
        row += [entry.workflow] if is_wide else []
        table.add_row(*(Text(cell if is_narrow else cell.replace("\n", " ")) for cell in row))
    console.print(table)
