"""Everything that a report says, before it is written as a page or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tenon.page.time_axis import Axis, axis_of
from tenon.record.entries import Entry
from tenon.report.advice.base import Advice
from tenon.report.advice.rules import advice_on
from tenon.report.ahead import Ahead, ahead
from tenon.report.happened import Happened, happened
from tenon.report.live import LiveCluster
from tenon.report.spending import Lifetimes, lifetimes

DAY = timedelta(days=1)
COST_BUCKETS = 200
EVENT_BUCKETS = 48


@dataclass(frozen=True, slots=True)
class Past:
    """What the record says."""

    whole: Happened
    """The whole window."""
    day: Happened
    """Its last day."""
    lifetimes: Lifetimes
    cost_axis: Axis
    an_hour: Sequence[float]
    """By bucket of `cost_axis`, the mean of dollars an hour."""
    event_axis: Axis

    def cost(self, since: datetime) -> float:
        """Return the dollars that nodes of NodePools cost since a time."""
        return self.lifetimes.cost_between(since, self.whole.until)


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
    past = _past(cluster, entries, window) if entries is not None else None
    return Report(cluster, advice_on(cluster), ahead(cluster), past)


def _past(cluster: LiveCluster, entries: Sequence[Entry], window: timedelta) -> Past:
    now = cluster.fleet.now
    since = now - window
    of_nodes = lifetimes(entries, cluster.nodes)
    cost_axis = axis_of(since, now, COST_BUCKETS)
    return Past(
        whole=happened(entries, since, now),
        day=happened(entries, max(since, now - DAY), now),
        lifetimes=of_nodes,
        cost_axis=cost_axis,
        an_hour=of_nodes.an_hour(cost_axis, since, now),
        event_axis=axis_of(since, now, EVENT_BUCKETS),
    )
