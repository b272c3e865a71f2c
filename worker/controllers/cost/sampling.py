"""Looks each minute at who requests which room of the nodes, for the record and for metrics.

A sample divides the price of each node. The samples of an interval are one entry of the record, from which `tenon cost`
divides the bill, and the last sample is a few gauges. Both are bounded, whatever the cluster has. The event loop only
copies the cache's tables; the rest is done in a thread, and only for nodes whose pods have changed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from activities.record.writer import RecordWriter
from tenon.apis import labels
from tenon.apis.warm import STOPPED
from tenon.cost.sampling import Interval, Sample, next_end
from tenon.cost.split import Consumer, PricedNode, loads_of, shares
from tenon.cost.summary import summary_of
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.timestamps import clock_instant
from tenon.messages.provisioning import ClusterCost
from tenon.money import nanos
from tenon.resources import Resources
from worker.cache.changes import Change
from worker.cache.cluster import ClusterCache
from worker.cache.node_memo import NodeMemo
from worker.cache.state import ClusterState
from worker.controllers.base import Controller
from worker.controllers.cost.gauges import cost_texts
from worker.controllers.gauge_file import GaugeFile

SAMPLE_SECONDS = 60.0
LONGEST_GAP = timedelta(minutes=5)
"""A sample counts for the time since the one before, unless that is longer: a machine that slept did not look."""

PriceOf = Callable[[str, str, str, str], float]
"""Returns the price of an hour for an instance type, zone, capacity type and tenancy; 0 if it is not known."""
_OFFERING = (labels.INSTANCE_TYPE, labels.ZONE, labels.CAPACITY_TYPE, labels.TENANCY)
_Division = tuple[int, Resources, Mapping[Consumer, int]]
"""The price and the headroom of a node, and its shares."""


class LatestCost:
    """What the cluster cost at the last sample, for who asks in between."""

    def __init__(self) -> None:
        self.summary: ClusterCost | None = None


class CostController(Controller):
    """Samples the cluster."""

    name = "cost"
    topics = ()
    resync = SAMPLE_SECONDS

    def __init__(
        self,
        cache: ClusterCache,
        price_of: PriceOf,
        headroom: Callable[[], Mapping[str, Resources]],
        record: RecordWriter,
        cluster: str,
        length: timedelta,
        folder: Path | None,
        lower_bound: Callable[[], Awaitable[float | None]],
        latest: LatestCost,
    ) -> None:
        """``headroom``: what CapacityBuffers keep free, by node. ``length``: of an interval. ``folder``: that of the
        metrics; None for no metrics. ``lower_bound``: computes the least that nodes could cost, once in an interval.
        ``latest``: gets each sample's summary.
        """
        super().__init__(cache)
        self._price_of = price_of
        self._headroom = headroom
        self._record = record
        self._cluster = cluster
        self._length = length
        self._file = GaugeFile(folder, self.name) if folder is not None else None
        self._lower_bound = lower_bound
        self._latest = latest
        self._bound: float | None = None
        self._divisions: NodeMemo[_Division] = NodeMemo()
        self._interval: Interval | None = None
        self._end = clock_instant(0)

    async def run(self) -> None:
        """Sample until cancelled. The interval that has begun is recorded; the gauges go, as another replica leads."""
        try:
            with self._file.exported() if self._file is not None else contextlib.nullcontext():
                await super().run()
        finally:
            self._close()
            self._divisions = NodeMemo()

    async def reconcile(self, changes: Sequence[Change]) -> float | None:  # noqa: ARG002
        """Take a sample. The next one is due in a minute, or when the interval ends."""
        seconds = self._cache.clock()
        snapshot, headroom = ClusterState(lambda: seconds), self._headroom()
        snapshot.adopt(self._cache)
        sample = await asyncio.to_thread(self._sample, snapshot, headroom)
        now = clock_instant(seconds)
        nodes = sum(bool(claim.instance_id) for claim in snapshot.claims)
        others = len(snapshot.nodes) - sum(snapshot.node_of(claim) is not None for claim in snapshot.claims)
        self._latest.summary = summary_of(sample, at=now, nodes=nodes, others=others, lower_bound=self._bound)
        if self._interval is not None and now - self._interval.until > LONGEST_GAP:
            self._close()
        if self._interval is not None:
            self._interval.add(sample, now)
            if now >= self._end:
                await self.isolate("lower bound", self._measure_bound())
                self._close()
        if self._interval is None:
            self._interval, self._end = Interval(now), next_end(now, self._length)
        return min(SAMPLE_SECONDS, max(1.0, (self._end - now).total_seconds()))

    async def _measure_bound(self) -> None:
        self._bound = None  # one that is out of date would be wrong
        self._bound = await self._lower_bound()

    def _close(self) -> None:
        interval, self._interval = self._interval, None
        bound = self._bound
        if interval is not None and interval.has_cost:
            self._record.write(lambda: interval.entry(self._cluster, bound))

    def _sample(self, state: ClusterState, headroom: Mapping[str, Resources]) -> Sample:
        sample: dict[str, dict[Consumer, int]] = {}
        for claim in state.claims:
            if claim.instance_id:
                of_pool = sample.setdefault(claim.pool, {})
                for consumer, price in self._shares(state, claim, headroom).items():
                    of_pool[consumer] = of_pool.get(consumer, 0) + price
        self._divisions.keep_only(state.nodes.keys())
        if self._file is not None:
            self._file.write("".join(cost_texts(sample, self._bound)))
        return sample

    def _shares(
        self, state: ClusterState, claim: ClaimRecord, headroom: Mapping[str, Resources]
    ) -> Mapping[Consumer, int]:
        node = state.node_of(claim)
        instance_type, zone, capacity_type, tenancy = (claim.labels.get(key, "") for key in _OFFERING)
        is_stopped = claim.warm == STOPPED  # EC2 charges for its volumes alone
        price = 0 if is_stopped else nanos(self._price_of(instance_type, zone, capacity_type, tenancy))
        priced = PricedNode(claim.name, claim.pool, instance_type, zone, capacity_type, price, is_starting=True)
        if node is None:
            return shares(priced)
        pods, room = state.pods_by_key(node.name), headroom.get(node.name, {})
        division = self._divisions.get(node.name, (node, pods))
        if division is None or division[:2] != (price, room):
            loads = loads_of(pods.values())
            priced = PricedNode(
                node.name,
                claim.pool,
                instance_type,
                zone,
                capacity_type,
                price,
                allocatable=node.allocatable,
                loads=loads,
                headroom=room,
            )
            division = (price, room, shares(priced))
            self._divisions.put(node.name, (node, pods), division)
        return division[2]
