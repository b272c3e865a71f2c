"""What ``tenon cost`` reports of now or of a window, from Kubernetes, the record and price lists."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from activities.clock import utc_now
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ConfigError
from cli.cost_view.current_nodes import (
    CostObjects,
    disk_prices,
    labels_of_workloads,
    living,
    priced_nodes,
    prices_of,
    read_cluster,
)
from cli.cost_view.report import CostReport
from cli.cost_view.window import CostError, CostWindow
from cli.record_faults import require_one_cluster, without_zone
from cli.record_source import RecordSource
from tenon.cost.attribution import Attribution, Measurement, attribute, measurement_of
from tenon.cost.bill import Bill, Lifetime, bill_of
from tenon.cost.focus import BillingAccount, focus_rows
from tenon.cost.rows import (
    Charge,
    Dimension,
    Grouping,
    charges_by_consumer,
    charges_by_instance,
    charges_now,
    grouped,
    labeled,
    savings_of,
    spot_share,
    with_headroom,
)
from tenon.cost.split import Consumer, PricedNode
from tenon.kube.timestamps import time_text
from tenon.record.entries import CommandEndEntry, CostEntry, Entry, LaunchEntry, RemovalEntry
from tenon.sentences import counted

RECENT = timedelta(hours=2)
"""How old the entry may be that says what headroom there is now, and what the lower bound is."""
BOUND_SHARE = 0.95
"""The part of a window whose lower bound must be known, from 0 to 1. With less, the two sums are not comparable."""
NO_BOUND = "The lower bound is not known: the leader records it in intervals (setting COST_INTERVAL), and {record}"
NO_RECORD = "No record is named: --record says where the worker's setting RECORD_SINKS writes it."


class CostReading:
    """Reads what a report needs, once."""

    def __init__(self, grouping: Grouping, source: RecordSource | None, cluster: str, *, ask_aws: bool) -> None:
        self._grouping = grouping
        self._source = source
        self._name = cluster
        self._ask_aws = ask_aws
        self._bill = Bill([], [])
        self._region = ""
        self._unplaced = 0
        """How many entries have a time without a zone."""
        self._attribute = partial(attribute, measurements=())

    def of_now(self) -> CostReport:
        """Return the cost of an hour."""
        cluster, nodes, _, notes = self._current()
        recent = self._recent_entries(cluster.read_at)
        charges = self._with_headroom(cluster, charges_now(nodes), notes, recent)
        bounded_entry = next((entry for entry in reversed(recent) if entry.lower_bound is not None), None)
        if bounded_entry is None:
            why = "no record is named" if self._source is None else "the record has none of the last two hours"
            notes.append(NO_BOUND.format(record=why))
        return CostReport(
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

    def of_window(self, window: CostWindow) -> CostReport:
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
        cluster: CostObjects | None = None
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
        running = living(cluster, nodes) if cluster is not None else []
        self._bill = bill_of(entries, running, is_complete=cluster is not None, disk_prices=prices_of_disks)
        lifetimes = [lifetime for lifetime in self._bill.lifetimes if _ran_in(lifetime, window)]
        current_weights = _weights(charges_now(nodes)) if window.is_now and cluster is not None else None
        self._attribute = partial(attribute, measurements=measurements, current_weights=current_weights)
        attribution = attribute(lifetimes, measurements, window.since, window.until, current_weights)
        by_instance = charges_by_instance(lifetimes, lambda lifetime: lifetime.cost(window.since, window.until))
        if self._unplaced:
            notes.append(without_zone(self._unplaced))
        notes += _notes_of_window(self._bill, attribution, window, has_current=current_weights is not None)
        return CostReport(
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

    def focus_rows(self, window: CostWindow, billing_account: str) -> Iterator[dict[str, str]]:
        """Yield the rows of the window in the FOCUS format. `of_window` has read it."""
        currency = "CNY" if self._region.startswith("cn-") else "USD"
        account = BillingAccount(billing_account, self._name or "cluster", self._region, currency)

        def divided(lifetimes: Sequence[Lifetime], since: datetime, until: datetime) -> Attribution:
            return self._attribute(lifetimes, since=since, until=until)

        return focus_rows(self._bill.lifetimes, window.since, window.until, account, divided)

    def _current(
        self, *, with_disks: bool = False
    ) -> tuple[CostObjects, list[PricedNode], Mapping[str, int], list[str]]:
        """Return the cluster, its nodes, the prices of disks by NodePool, and notes."""
        cluster = asyncio.run(_read(with_disks=with_disks))
        prices = prices_of(cluster, ask_aws=self._ask_aws)
        self._region = cluster.region
        nodes, sums = priced_nodes(cluster, prices, self._grouping.label)
        notes = [*([f"Not counted: {sums.left_out}"] if sums.left_out else []), *prices.notes]
        return cluster, nodes, disk_prices(cluster, prices), notes

    def _entries(self, source: RecordSource, since: datetime) -> Iterator[Entry]:
        """Yield what the cost is computed from.

        Raises:
            RecordError: the record cannot be read, or has several clusters and none is named.
        """
        clusters: set[str] = set()
        self._unplaced = 0
        for entry in source.entries(since):
            clusters.add(entry.cluster)
            if entry.at.tzinfo is None:
                self._unplaced += 1
            elif isinstance(entry, LaunchEntry | RemovalEntry | CostEntry | CommandEndEntry):
                yield entry
        require_one_cluster(clusters)

    def _recent_entries(self, now: datetime) -> list[CostEntry]:
        """What the record says of who used the nodes lately, the latest last."""
        if self._source is None:
            return []
        recent = (entry for entry in self._entries(self._source, now - RECENT) if isinstance(entry, CostEntry))
        return sorted(recent, key=lambda entry: entry.at)

    def _with_headroom(
        self, cluster: CostObjects, charges: list[Charge], notes: list[str], recent: Sequence[CostEntry]
    ) -> list[Charge]:
        if not cluster.has_buffers:
            return charges
        if recent:
            notes.append(f"Headroom is that of {time_text(recent[-1].at)}, from the record")
            return with_headroom(charges, recent[-1])
        notes.append("Idle room includes the headroom of CapacityBuffers, which a recent record tells apart")
        return charges

    def _charges(
        self, by_instance: list[Charge], attribution: Attribution, cluster: CostObjects | None
    ) -> list[Charge]:
        dimension = self._grouping.dimension
        if dimension is Dimension.LABEL:
            label_of = labels_of_workloads(cluster, self._grouping.label) if cluster is not None else {}
            return charges_by_consumer(labeled(attribution, label_of))
        if dimension is Dimension.POOL or dimension.is_of_pods:
            return charges_by_consumer(attribution)
        return by_instance


async def _read(*, with_disks: bool) -> CostObjects:
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


def _ran_in(lifetime: Lifetime, window: CostWindow) -> bool:
    return lifetime.launched_at < window.until and (lifetime.ended_at is None or lifetime.ended_at > window.since)


def _weights(charges: Sequence[Charge]) -> dict[str, dict[Consumer, int]]:
    weights: dict[str, dict[Consumer, int]] = {}
    for charge in charges:
        if charge.consumer is not None:
            plain = Consumer(charge.consumer.kind, charge.consumer.namespace, charge.consumer.workload)
            of_pool = weights.setdefault(charge.pool, {})
            of_pool[plain] = of_pool.get(plain, 0) + charge.amount
    return weights


def _notes_of_window(bill: Bill, attribution: Attribution, window: CostWindow, *, has_current: bool) -> list[str]:
    notes = []
    if bill.endless:
        notes.append(
            f"The record lacks the end of {counted(len(bill.endless), 'instance')}, for which a minute is counted: "
            f"{', '.join(bill.endless[:3])}"
        )
    if has_current:
        start = attribution.measured_until or window.since
        notes.append(f"Since {time_text(start)}, the cost is divided as pods request room now")
    return notes
