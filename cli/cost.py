"""``tenon cost``: what the cluster costs now or cost in a window, and who causes it.

Now is read from Kubernetes alone. A window is read from the record, and from Kubernetes what runs still.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from activities.clock import utc_now
from activities.ec2.price_tables import PriceTableError
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ConfigError
from cli.application import create_app, examples
from cli.console import output_console
from cli.context import ContextError, resolve, worker_of_sandbox
from cli.cost_view.current_nodes import (
    Cluster,
    disk_prices,
    labels_of_workloads,
    living,
    priced_nodes,
    prices_of,
    read_cluster,
)
from cli.cost_view.report import Report, row_documents, to_document
from cli.cost_view.table import lines_below, table
from cli.record_source import RecordError, RecordOption, RecordSource, chosen_record, open_record
from tenon.cost.attribution import Attribution, Measurement, attribute, measurement_of
from tenon.cost.bill import Bill, Lifetime, bill_of
from tenon.cost.focus import Account, focus_rows
from tenon.cost.focus import to_csv as focus_csv
from tenon.cost.rows import (
    Charge,
    Dimension,
    Grouping,
    GroupingError,
    charges_by_consumer,
    charges_by_instance,
    charges_now,
    grouped,
    labeled,
    read_grouping,
    savings_of,
    spot_share,
    to_csv,
    with_headroom,
)
from tenon.cost.split import Consumer, PricedNode
from tenon.errors import TenonError
from tenon.kube.timestamps import parse_instant
from tenon.record.entries import CommandEndEntry, CostEntry, Entry, LaunchEntry, RemovalEntry
from tenon.sentences import counted
from worker.settings import parse_duration

app = create_app()

RECENT = timedelta(hours=2)
"""How old the entry may be that says what headroom there is now, and what the lower bound is."""
BOUND_SHARE = 0.95
"""The part of a window for which its lower bound must be known: the cost of the rest has none to compare with."""
NO_BOUND = "The lower bound is not known: the leader records it in intervals (setting COST_INTERVAL), and {record}"
NO_RECORD = "No record is named: --record says where the worker's setting RECORD_SINKS writes it."


class CostError(TenonError):
    """The cost cannot be said. The message is one sentence."""


@dataclass(frozen=True, slots=True)
class Window:
    """The time that is asked about."""

    since: datetime
    until: datetime
    is_now: bool
    """Whether it ends now."""


@app.command(
    epilog=examples(
        "tenon cost --by workload",
        "tenon cost --by label:team --since 7d -o wide",
        "tenon cost --since 30d --export focus.csv",
    )
)
def cost(
    by: Annotated[
        str,
        typer.Option("--by", help="pool, namespace, workload, type, zone, capacity-type or label:KEY (of pods)."),
    ] = "namespace",
    since: Annotated[
        str | None, typer.Option("--since", metavar="DURATION", help="A window that ends now, such as 24h or 30d.")
    ] = None,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="The start of a window, such as 2026-01-31.")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Its end; without it, now. Times are UTC.")
    ] = None,
    output: Annotated[
        Literal["table", "wide", "json", "csv"], typer.Option("--output", "-o", help="table, wide, json or csv.")
    ] = "table",
    export: Annotated[
        Path | None, typer.Option("--export", metavar="FILE", help="Write a window as CSV in the FOCUS 1.2 format too.")
    ] = None,
    billing_account: Annotated[
        str, typer.Option("--billing-account", metavar="ID", help="The AWS account that pays, for --export.")
    ] = "",
    record: RecordOption = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="NAME", envvar="CLUSTER_NAME", help="Name of the cluster.")
    ] = None,
    aws: Annotated[
        bool, typer.Option("--aws/--no-aws", help="Ask AWS for prices; otherwise use those of a table.")
    ] = True,
) -> None:
    """Show what the cluster costs, now or in a window, and who causes it."""
    try:
        grouping, window = read_grouping(by), read_window(since, from_, to, utc_now())
        name = _prepare(cluster)
        place = chosen_record(record)
        source = open_record(place, name) if place else None
        if export is not None and (window is None or not billing_account):
            raise CostError("--export needs a window, such as --since 24h, and --billing-account.")
        state = _Reading(grouping, source, name, ask_aws=aws)
        report = state.of_window(window) if window is not None else state.of_now()
        if export is not None and window is not None:
            _write(export, focus_csv(state.focus_rows(window, billing_account)))
    except (ApiError, ConfigError, CostError, GroupingError, PriceTableError, RecordError) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    _print(report, output)


def read_window(since: str | None, from_: str | None, to: str | None, now: datetime) -> Window | None:
    """Return the window that options name; None for now.

    Raises:
        CostError: they cannot be read, or name no time that has passed.
    """
    if since is not None and from_ is not None:
        raise CostError("--since and --from both name the start of the window: give one of them.")
    if since is None and from_ is None:
        if to is not None:
            raise CostError("--to is the end of a window: name its start with --since or --from.")
        return None
    until = now if to is None else _time("--to", to)
    start = until - _duration(since) if since is not None else _time("--from", from_ or "")
    if not start < min(until, now):
        raise CostError(
            f"The window from {start:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M} UTC has no time in the past."
        )
    return Window(start, min(until, now), is_now=until >= now)


def _duration(text: str) -> timedelta:
    try:
        if text.endswith("d") and text[:-1].isdecimal():
            return timedelta(days=int(text[:-1]))
        return parse_duration(text)
    except (ValueError, OverflowError):
        raise CostError(f"--since {text} is not a duration: write one such as 90m, 24h or 30d.") from None


def _time(option: str, text: str) -> datetime:
    instant = parse_instant(text)
    if instant is None:
        raise CostError(f"{option} {text} is not a time: write one such as 2026-01-31 or 2026-01-31T12:00:00Z.")
    return instant.astimezone(UTC)


def _prepare(cluster: str | None) -> str:
    """Return the name of the cluster, which may be empty. A sandbox also has addresses and credentials."""
    try:
        context = resolve(cluster)
    except ContextError:
        return ""
    context.apply()
    sandbox = worker_of_sandbox()
    if sandbox is not None and sandbox.cluster == context.cluster:
        for variable, value in sandbox.environment.items():
            if variable.startswith("AWS_"):
                os.environ.setdefault(variable, value)
    return context.cluster


class _Reading:
    """Reads what a report needs, once."""

    def __init__(self, grouping: Grouping, source: RecordSource | None, cluster: str, *, ask_aws: bool) -> None:
        self._grouping = grouping
        self._source = source
        self._name = cluster
        self._ask_aws = ask_aws
        self._bill = Bill([], [])
        self._region = ""
        self._attribute = partial(attribute, measurements=())

    def of_now(self) -> Report:
        """Return the cost of an hour."""
        cluster, nodes, _, notes = self._current()
        recent = self._recent_entries(cluster.read_at)
        charges = self._with_headroom(cluster, charges_now(nodes), notes, recent)
        bounded_entry = next((entry for entry in reversed(recent) if entry.lower_bound is not None), None)
        if bounded_entry is None:
            why = "no record is named" if self._source is None else "the record has none of the last two hours"
            notes.append(NO_BOUND.format(record=why))
        return Report(
            grouping=self._grouping,
            rows=grouped(charges, self._grouping),
            until=cluster.read_at,
            spot_share=spot_share(charges),
            nodes=len(nodes),
            unpriced=sum(node.price is None for node in nodes),
            lower_bound=bounded_entry.lower_bound if bounded_entry is not None else None,
            bound_at=bounded_entry.at.astimezone(UTC) if bounded_entry is not None else None,
            notes=notes,
        )

    def of_window(self, window: Window) -> Report:
        """Return the cost of a window.

        Raises:
            CostError: no record is named.
            RecordError: it cannot be read.
        """
        if self._source is None:
            raise CostError(NO_RECORD)
        entries: list[Entry] = []
        measurements: list[Measurement] = []
        bounds: list[tuple[float, float]] = []
        for entry in self._entries(self._source, window.since):
            if isinstance(entry, CostEntry):
                measurements.append(measurement_of(entry))
                if entry.lower_bound is not None and entry.at <= window.until:
                    bounds.append(((entry.at - entry.since).total_seconds(), entry.lower_bound))
            else:
                entries.append(entry)
        notes: list[str] = []
        cluster: Cluster | None = None
        nodes: Sequence[PricedNode] = ()
        prices_of_disks: Mapping[str, int] = {}
        were_stopped = any(isinstance(entry, RemovalEntry) and entry.stopped for entry in entries)
        try:
            cluster, nodes, prices_of_disks, notes = self._current(with_disks=were_stopped)
        except (ApiError, ConfigError) as error:
            notes.append(
                f"The cluster cannot be read, so instances that were launched before the window and run still are "
                f"missing: {str(error).rstrip('.')}"
            )
        own = [node for node in nodes if node.claim]
        running = living(cluster, own) if cluster is not None else []
        self._bill = bill_of(entries, running, is_complete=cluster is not None, disk_prices=prices_of_disks)
        lifetimes = [lifetime for lifetime in self._bill.lifetimes if _ran_in(lifetime, window)]
        current_weights = _weights(charges_now(own)) if window.is_now and cluster is not None else None
        self._attribute = partial(attribute, measurements=measurements, current_weights=current_weights)
        attribution = attribute(lifetimes, measurements, window.since, window.until, current_weights)
        by_instance = charges_by_instance(lifetimes, lambda lifetime: lifetime.cost(window.since, window.until))
        notes += _notes_of_window(self._bill, attribution, window, has_current=current_weights is not None)
        return Report(
            grouping=self._grouping,
            rows=grouped(self._charges(by_instance, attribution, cluster), self._grouping),
            until=window.until,
            spot_share=spot_share(by_instance),
            nodes=len({lifetime.instance for lifetime in lifetimes}),
            unpriced=len({lifetime.instance for lifetime in lifetimes if lifetime.price is None}),
            since=window.since,
            savings=savings_of(entry for entry in entries if entry.at < window.until),
            lower_bound=_mean(bounds, (window.until - window.since).total_seconds()),
            notes=notes,
        )

    def focus_rows(self, window: Window, billing_account: str) -> Iterator[dict[str, str]]:
        """Yield the rows of the window in the FOCUS format. `of_window` has read it."""
        currency = "CNY" if self._region.startswith("cn-") else "USD"
        account = Account(billing_account, self._name or "cluster", self._region, currency)

        def divided(lifetimes: Sequence[Lifetime], since: datetime, until: datetime) -> Attribution:
            return self._attribute(lifetimes, since=since, until=until)

        return focus_rows(self._bill.lifetimes, window.since, window.until, account, divided)

    def _current(self, *, with_disks: bool = False) -> tuple[Cluster, list[PricedNode], Mapping[str, int], list[str]]:
        """Return the cluster, its nodes, the prices of disks by NodePool, and notes."""
        cluster = asyncio.run(_read(with_disks=with_disks))
        prices = prices_of(cluster, ask_aws=self._ask_aws)
        self._region = cluster.region
        nodes = priced_nodes(cluster, prices, self._grouping.label)
        return cluster, nodes, disk_prices(cluster, prices), list(prices.notes)

    def _entries(self, source: RecordSource, since: datetime) -> Iterator[Entry]:
        kinds = (LaunchEntry, RemovalEntry, CostEntry, CommandEndEntry)
        return (entry for entry in source.entries(since) if isinstance(entry, kinds))

    def _recent_entries(self, now: datetime) -> list[CostEntry]:
        """What the record says of who used the nodes lately, the latest last."""
        if self._source is None:
            return []
        recent = (entry for entry in self._entries(self._source, now - RECENT) if isinstance(entry, CostEntry))
        return sorted(recent, key=lambda entry: entry.at)

    def _with_headroom(
        self, cluster: Cluster, charges: list[Charge], notes: list[str], recent: Sequence[CostEntry]
    ) -> list[Charge]:
        if not cluster.has_buffers:
            return charges
        if recent:
            notes.append(f"Headroom is that of {recent[-1].at:%H:%M} UTC, from the record")
            return with_headroom(charges, recent[-1])
        notes.append("Idle room includes the headroom of CapacityBuffers, which a recent record tells apart")
        return charges

    def _charges(self, by_instance: list[Charge], attribution: Attribution, cluster: Cluster | None) -> list[Charge]:
        dimension = self._grouping.dimension
        if dimension is Dimension.LABEL:
            label_of = labels_of_workloads(cluster, self._grouping.label) if cluster is not None else {}
            return charges_by_consumer(labeled(attribution, label_of))
        if dimension is Dimension.POOL or dimension.is_of_pods:
            return charges_by_consumer(attribution)
        return by_instance


async def _read(*, with_disks: bool) -> Cluster:
    kube = await Kube.connect()
    try:
        return await read_cluster(kube, utc_now(), with_disks=with_disks)
    finally:
        await kube.close()


def _mean(bounds: Sequence[tuple[float, float]], window_seconds: float) -> float | None:
    """Return the mean of values, each with its seconds before it; None if they are not those of the whole window."""
    known_seconds = sum(seconds for seconds, _ in bounds)
    if known_seconds < BOUND_SHARE * window_seconds:
        return None
    return sum(seconds * bound for seconds, bound in bounds) / known_seconds


def _ran_in(lifetime: Lifetime, window: Window) -> bool:
    return lifetime.launched_at < window.until and (lifetime.ended_at is None or lifetime.ended_at > window.since)


def _weights(charges: Sequence[Charge]) -> dict[str, dict[Consumer, int]]:
    weights: dict[str, dict[Consumer, int]] = {}
    for charge in charges:
        if charge.consumer is not None:
            plain = Consumer(charge.consumer.kind, charge.consumer.namespace, charge.consumer.workload)
            of_pool = weights.setdefault(charge.pool, {})
            of_pool[plain] = of_pool.get(plain, 0) + charge.amount
    return weights


def _notes_of_window(bill: Bill, attribution: Attribution, window: Window, *, has_current: bool) -> list[str]:
    notes = []
    if bill.endless:
        notes.append(
            f"The record lacks the end of {counted(len(bill.endless), 'instance')}, for which a minute is counted: "
            f"{', '.join(bill.endless[:3])}"
        )
    if has_current:
        start = attribution.measured_until or window.since
        notes.append(f"Since {start:%Y-%m-%d %H:%M} UTC, the cost is divided as pods request room now")
    return notes


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CostError(f"{path} cannot be written: {error.strerror}.") from None


def _print(report: Report, output: str) -> None:
    if output == "json":
        print(json.dumps(to_document(report), indent=2))
        return
    if output == "csv":
        print(to_csv(row_documents(report)), end="")
        return
    console = output_console()
    width = console.width if console.is_terminal else None
    console.print(table(report, width, is_wide=output == "wide"))
    for line in lines_below(report):
        console.print(line, style="dim", highlight=False)
