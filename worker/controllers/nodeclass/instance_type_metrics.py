"""Gauges of instance types and their offerings: size, price and availability (ACT-16), and what the instances cost.

Tens of thousands of series in the Prometheus client's files would take half a second of each scrape, and no series can
be removed from them. So the leader writes these gauges as text once a minute, and `/metrics` appends the text.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path

from activities.cluster_view.interfaces import Types
from activities.ec2.errors import EC2Error
from activities.metrics import (
    OFFERING_AVAILABLE,
    OFFERING_PRICE,
    OFFERINGS_REFUSED,
    POOL_COST,
    POOL_PRICE,
    TYPE_CPU_CORES,
    TYPE_MEMORY_BYTES,
    TextGauge,
)
from activities.provisioning.launch_refusals import LaunchRefusals
from activities.provisioning.offerings import instance_types_by_pool
from tenon.apis import labels
from tenon.apis.nodepool import NodePool
from tenon.apis.warm import STOPPED
from tenon.ec2.refusals.unavailable import reason_of
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.offerings import OfferingKey
from tenon.provisioning.cost_limits import PoolOfferingPrices
from tenon.provisioning.overlays import PoolTypes
from tenon.provisioning.readiness import usable_pools
from tenon.provisioning.static_capacity import usable_static_pools
from tenon.rollout.revisions import class_key
from tenon.scheduling.model import InstanceType
from worker.cache.changes import Change
from worker.cache.cluster import ClusterCache
from worker.cache.planning_view import PlanningView
from worker.cache.purchases import launched_as
from worker.controllers.base import Controller
from worker.controllers.gauge_file import GaugeFile
from worker.controllers.nodepool.prices import PoolPrices

CPU, MEMORY = f"{labels.AWS_GROUP}/instance-cpu", f"{labels.AWS_GROUP}/instance-memory"
MIB = 1024 * 1024
SOON = 5.0

Series = Mapping[tuple[str, ...], float]
"""Values by the values of the labels."""


def measured(lists: Iterable[Sequence[InstanceType]]) -> dict[TextGauge, Series]:
    """The gauges of these lists of types, of which each NodePool has one.

    If NodePools differ about an offering, it is available if it is so for one of them, and has the lowest price.
    """
    cores: dict[tuple[str, ...], float] = {}
    memory: dict[tuple[str, ...], float] = {}
    available: dict[tuple[str, ...], float] = {}
    prices: dict[tuple[str, ...], float] = {}
    for kind in (kind for types in lists for kind in types):
        for series, key, unit in ((cores, CPU, 1), (memory, MEMORY, MIB)):
            series.update(((kind.name,), float(value) * unit) for value in kind.requirements.get(key).values)
        for offering in kind.offerings:
            place = (kind.name, offering.capacity_type, offering.zone)
            has_price = isfinite(offering.price)
            available[place] = max(available.get(place, 0.0), float(offering.available and has_price))
            if has_price:
                prices[place] = min(prices.get(place, offering.price), offering.price)
    return {TYPE_CPU_CORES: cores, TYPE_MEMORY_BYTES: memory, OFFERING_AVAILABLE: available, OFFERING_PRICE: prices}


def priced(claims: Iterable[ClaimRecord], prices: PoolOfferingPrices) -> Series:
    """The price of an hour of the instances that run, by NodePool and capacity type, as limits on costs count them."""
    sums: dict[tuple[str, ...], float] = {}
    for claim in claims:
        if not claim.provider_id or claim.warm == STOPPED:
            continue
        bought = launched_as(claim)
        key = (bought.pool, bought.capacity_type)
        price = prices.of_node(bought)
        sums[key] = sums.get(key, 0.0) + (price if isfinite(price) else 0.0)
    return {key: round(price, 6) for key, price in sums.items()}


def refusals_counted(refused: Iterable[OfferingKey]) -> Series:
    """How many offerings plans avoid, by capacity type and reason. A quota that is used up counts once."""
    return Counter((key.capacity_type, reason_of(key)) for key in refused)


def text_of(gauges: Mapping[TextGauge, Series]) -> str:
    """The gauges in Prometheus' text format."""
    lines: list[str] = []
    for gauge, series in gauges.items():
        lines += (f"# HELP {gauge.name} {gauge.documentation}", f"# TYPE {gauge.name} gauge")
        template = ",".join(f'{label}="{{}}"' for label in gauge.labels)
        lines += (f"{gauge.name}{{{template.format(*values)}}} {value!r}" for values, value in sorted(series.items()))
    return "".join(f"{line}\n" for line in lines)


class InstanceTypeMetricsController(Controller):
    """Writes the gauges of the types of all EC2NodeClasses whose NodePools get new nodes. Removes them at its end."""

    name = "instancetypemetrics"
    topics = ()
    resync = 60.0

    def __init__(
        self,
        cache: ClusterCache,
        view: PlanningView,
        types: Types,
        refusals: LaunchRefusals,
        folder: Path,
        prices: PoolPrices | None = None,
    ) -> None:
        """Create the controller.

        Args:
            folder: that of the metrics of this worker.
            prices: receives what the nodes of each NodePool cost.
        """
        super().__init__(cache)
        self._view = view
        self._types = types
        self._refusals = refusals
        self._prices = prices or PoolPrices()
        self._file = GaugeFile(folder, self.name)
        self._written: dict[TextGauge, Series] = {}

    async def run(self) -> None:
        """Write the gauges until cancelled."""
        self._written = {}
        with self._file.exported():
            await super().run()

    async def reconcile(self, changes: Sequence[Change]) -> float | None:  # noqa: ARG002
        """Write the gauges if they changed. Look again soon while no NodePool is usable, as in a new cluster."""
        pools = [
            pool
            for usable in (usable_pools, usable_static_pools)
            for pool in usable(self._view.node_pools(), self._view.node_class, self._view)
        ]
        failure: EC2Error | None = None
        try:
            pools_with_types = await self._types_by_pool(pools)
        except EC2Error as error:
            failure, pools_with_types = error, await self._types_where_readable(pools)
        costs = await asyncio.to_thread(self._write, pools_with_types, list(self._cache.claims))
        if failure is not None:
            raise failure
        self._prices.update({pool: price for (pool,), price in costs.items()})
        return None if pools else SOON

    async def _types_by_pool(self, pools: Sequence[NodePool]) -> PoolTypes:
        return (
            await instance_types_by_pool(self._view, self._types, pools, self._refusals.unavailable())
        ).pools_with_types

    async def _types_where_readable(self, pools: Sequence[NodePool]) -> PoolTypes:
        """What the NodePools sell whose types can be read: one class that cannot must not hide the others (N15-052)."""
        pools_with_types: list[tuple[NodePool, Sequence[InstanceType]]] = []
        for pool in pools:
            if self._view.node_class(class_key(pool)) is None:
                continue  # deleted while the types of other NodePools were read
            with contextlib.suppress(EC2Error):  # the caller raises the first
                pools_with_types += await self._types_by_pool([pool])
        return pools_with_types

    def _write(self, pools_with_types: PoolTypes, claims: Sequence[ClaimRecord]) -> Series:
        """Write the gauges, and return the price of each NodePool's instances."""
        gauges = measured({id(types): types for _, types in pools_with_types}.values())
        gauges[OFFERINGS_REFUSED] = refusals_counted(self._refusals.unavailable())
        gauges[POOL_PRICE] = prices = priced(claims, PoolOfferingPrices(pools_with_types))
        costs: dict[tuple[str, ...], float] = {}
        for (pool, _), price in prices.items():
            costs[pool,] = round(costs.get((pool,), 0.0) + price, 6)
        gauges[POOL_COST] = costs
        if gauges == self._written:
            return costs
        self._file.write(text_of(gauges))
        self._written = gauges
        return costs
