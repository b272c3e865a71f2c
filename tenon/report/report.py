"""Everything that a report says, before it is written as a page or as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tenon.disruption.rules.blockers import POD
from tenon.fleet.disruption_state import DisruptionState
from tenon.page.time_axis import Axis, axis_of
from tenon.record.entries import Entry
from tenon.report.advice.base import Advice, Question
from tenon.report.advice.rules import advice_on
from tenon.report.ahead import Ahead, ahead
from tenon.report.happened import Happened, happened
from tenon.report.live import LiveCluster
from tenon.report.spending import Spending, first_time, lower_bounds, spending

DAY = timedelta(days=1)
COST_BUCKETS = 200
EVENT_BUCKETS = 48
_SEEMINGLY_FREE = frozenset({DisruptionState.CONSOLIDATABLE, DisruptionState.RESTING})


@dataclass(frozen=True, slots=True)
class Past:
    """What the record says."""

    whole: Happened
    """The whole window."""
    day: Happened
    """Its last day."""
    spending: Spending
    cost_axis: Axis
    recorded_since: datetime | None
    """The first time of the record and of nodes; None if it says nothing. What cost what before is not known."""
    an_hour: Sequence[float | None]
    """By bucket of `cost_axis`, the mean of dollars an hour; None before the record begins."""
    lower_bounds: Sequence[float | None]
    """By bucket of `cost_axis`, dollars an hour that nodes for the pods cost at least, as the record says it."""
    event_axis: Axis
    by_namespace: Mapping[str, float]
    """What the window cost by namespace; empty if the record does not say it."""

    @property
    def has_day(self) -> bool:
        """Whether the last day is only a part of the window."""
        return self.day.since > self.whole.since

    @property
    def lower_bound(self) -> float | None:
        """The last known lower bound; None if the record has none."""
        return next((value for value in reversed(self.lower_bounds) if value is not None), None)

    def cost(self, since: datetime) -> float:
        """Return the dollars that nodes of NodePools cost since a time."""
        return self.spending.cost(since, self.whole.until)


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a report says."""

    cluster: LiveCluster
    advice: Sequence[Advice]
    ahead: Ahead
    past: Past | None
    """None if no record was read."""


def report_on(cluster: LiveCluster, entries: Sequence[Entry] | None, window: timedelta) -> Report:
    """Return the report.

    Args:
        cluster: what was read of the cluster.
        entries: those of the record, each once; None if no record was read.
        window: how far back the report looks.
    """
    question = Question(cluster)
    explained = _explained(cluster, question)
    past = _past(cluster, entries, window) if entries is not None else None
    return Report(explained, advice_on(question), ahead(cluster), past)


def _explained(cluster: LiveCluster, question: Question) -> LiveCluster:
    """Say of nodes that seem free which of their pods keep them: rows know no PodDisruptionBudgets."""
    whys = {
        obstacles.live.name: hold.why
        for obstacles in question.settled
        if obstacles.live.row.disruption in _SEEMINGLY_FREE
        for hold in obstacles.holds
        if hold.blocker.name == POD
    }
    nodes = [
        replace(live, row=replace(live.row, disruption=DisruptionState.BLOCKED, why=whys[live.name]))
        if live.name in whys
        else live
        for live in cluster.nodes
    ]
    return replace(cluster, nodes=nodes, fleet=replace(cluster.fleet, rows=[live.row for live in nodes]))


def _past(cluster: LiveCluster, entries: Sequence[Entry], window: timedelta) -> Past:
    now = cluster.fleet.now
    since = now - window
    of_nodes = spending(entries, cluster.nodes)
    cost_axis = axis_of(since, now, COST_BUCKETS)
    recorded_since = first_time(entries, of_nodes.bill.lifetimes)
    return Past(
        whole=happened(entries, since, now),
        day=happened(entries, max(since, now - DAY), now),
        spending=of_nodes,
        cost_axis=cost_axis,
        recorded_since=recorded_since,
        an_hour=of_nodes.an_hour(cost_axis, max(since, recorded_since or now), now),
        lower_bounds=lower_bounds(entries, cost_axis),
        by_namespace=of_nodes.by_namespace(entries, since, now),
        event_axis=axis_of(since, now, EVENT_BUCKETS),
    )
