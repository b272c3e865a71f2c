"""Updates the status of NodePools: conditions, resources, node count, price.

Their hashes, events and metrics follow from the same objects at the same moments, so they have no controllers of their
own: `NodePoolHashes`, `NodePoolEvents` and `worker.controllers.nodepool.metrics` are parts of this one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from activities import metrics
from activities.clock import utc_now
from activities.disruption.slowed_pools import SlowedPools
from activities.kubernetes.client import Kube
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.resources import NODEPOOLS
from activities.provisioning.launch_refusals import LaunchRefusals
from tenon.apis.common import Condition
from tenon.apis.nodepool import NodePool
from tenon.disruption.history.slowed_condition import with_slowed
from tenon.kube.records import ObjectRecord
from tenon.provisioning.capacity_shortage import with_capacity
from tenon.provisioning.cost_limits import cost_limits, cost_usage, costs_of
from tenon.provisioning.launch_refusals import with_launch_health
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.provisioning.pool_overlap import overlapping, with_overlap
from tenon.provisioning.readiness import pool_conditions
from tenon.provisioning.registration_health import with_registration_health
from tenon.resources import NODES, Resources, format_resources, parse_resources
from tenon.rollout.version_condition import with_version_held
from tenon.rollout.versions import PoolRollout
from tenon.schedule.off_condition import with_scheduled_off
from tenon.scheduling.offerings.hourly_cost import micro_dollars
from worker.cache.changes import Change, Topic
from worker.cache.cluster import ClusterCache
from worker.cache.planning_view import PlanningView
from worker.controllers.base import Controller
from worker.controllers.nodepool import metrics as pool_metrics
from worker.controllers.nodepool.events import NodePoolEvents
from worker.controllers.nodepool.hashes import NodePoolHashes
from worker.controllers.nodepool.prices import PoolPrices
from worker.controllers.nodepool.registration_results import RegistrationResults

UNSYNCED_PERIOD = 1.0
"""Seconds between two reports that the cache is not complete yet."""


class NodePoolStatusController(Controller):
    """Writes the status of every NodePool when something that it reports changed."""

    name = "nodepool"
    object_field = "nodepool"
    topics = (Topic.POOL, Topic.NODECLASS, Topic.CLAIM, Topic.NODE, Topic.ROLLOUT, Topic.SCHEDULE)
    interval = 1.0
    resync = 60.0

    def __init__(
        self,
        kube: Kube,
        recorder: EventPublisher,
        cache: ClusterCache,
        view: PlanningView,
        *,
        static_capacity: bool = False,
        measured: bool = True,
        refusals: LaunchRefusals | None = None,
        slowed: SlowedPools | None = None,
        prices: PoolPrices | None = None,
        policy: PlanPolicy | None = None,
    ) -> None:
        """Create the controller.

        Args:
            static_capacity: whether the feature gate StaticCapacity is on.
            measured: whether to update the metrics too.
            refusals: what EC2 refuses.
            slowed: the pools whose consolidation saved less than predicted.
            prices: what the nodes of each pool cost.
            policy: the operator's settings for plans.
        """
        super().__init__(cache)
        self._slowed = slowed or SlowedPools()
        self._prices = prices or PoolPrices()
        self._policy = policy or PlanPolicy()
        self._refusals = refusals or LaunchRefusals()
        self._measured = measured
        self._hashes = NodePoolHashes(kube, cache.claims)
        self._events = NodePoolEvents(recorder, self._log)
        self._static_capacity = static_capacity
        self._kube = kube
        self._view = view
        self._overlaps: dict[str, tuple[str, ...]] = {}
        self._compared: list[tuple[str, int, datetime | None]] = []
        """Name, generation and deletion time of the NodePools and classes that were last compared for overlaps."""
        self._registrations = RegistrationResults(cache.claims)
        self._launched: dict[str, datetime] = {}
        """By NodePool: when one of its NodeClaims last launched."""
        self._usages: Mapping[str, Resources] = {}
        """The usage of each NodePool, as of this reconcile."""
        self._costs: Mapping[str, int] = {}
        """What the nodes of each NodePool cost, in micro-dollars an hour, if there is a limit on that."""
        self._rollouts: Mapping[str, PoolRollout] = {}
        """What holds for each NodePool that a NodeRollout selects, as of this reconcile."""
        self._launching: Mapping[str, NodePool] = {}
        """Each of these NodePools in the version that it launches."""

    async def wait_ready(self) -> None:
        """Wait for the cache, and export that it is not synced yet."""
        if self._measured:
            metrics.CLUSTER_SYNCED.set(0)
        clock = asyncio.get_running_loop().time
        began, ready = clock(), asyncio.ensure_future(super().wait_ready())
        try:
            while not (await asyncio.wait({ready}, timeout=UNSYNCED_PERIOD))[0]:
                if self._measured:
                    metrics.CLUSTER_UNSYNCED_SECONDS.set(clock() - began)
            await ready
        finally:
            ready.cancel()
        if self._measured:
            metrics.CLUSTER_UNSYNCED_SECONDS.set(0)
        self._registrations.skip_present()
        self._note_launches([(Topic.CLAIM, claim.name) for claim in self._cache.claims])

    async def reconcile(self, changes: Sequence[Change]) -> float | None:
        """Update every NodePool, because most of its status depends on other objects."""
        if self._measured:
            metrics.CLUSTER_NODES.set(len(self._cache.nodes))
            metrics.CLUSTER_SYNCED.set(1)
            pool_metrics.measure_only({pool.name for pool in self._cache.pools})
        self._prices.forget_all_but({pool.name for pool in self._cache.pools})
        self._compare()
        self._registrations.observe(changes)
        self._note_launches(changes)
        self._registrations.forget_all_but(self._view.specs())
        self._hashes.observe()
        self._usages = self._cache.pool_usages(with_leaving=True)
        self._costs = self._cost_of_pools() if self._measured else {}
        self._rollouts = self._view.rollouts()
        pools = self._view.node_pools() if self._rollouts else []
        self._launching = {pool.metadata.name: pool for pool in pools}
        for record in self._cache.pools:
            await self.isolate(record.name, self._reconcile_pool(record))
        return None

    def _cost_of_pools(self) -> dict[str, int]:
        """What limits on costs count; nothing if there is none."""
        pools = self._view.specs()
        if not any(cost_limits(pool, self._policy) for pool in pools):
            return {}
        bought = self._view.purchases()
        costs = costs_of((purchase for purchase in bought if purchase.at_most), ())
        launched = costs_of((purchase for purchase in bought if not purchase.at_most), ())
        for name in {*launched, *(pool.metadata.name for pool in pools)}:
            price = self._prices.of(name)
            cost = launched.get(name, 0) if price is None else micro_dollars(price)
            costs[name] = costs.get(name, 0) + cost
        return costs

    def _launched_version(self, pool: NodePool) -> NodePool:
        """The NodePool as it launches nodes: a version that EC2 refuses during its rollout holds back no other one."""
        return self._launching.get(pool.metadata.name, pool)

    def _note_launches(self, changes: Sequence[Change]) -> None:
        for topic, name in changes:
            claim = self._cache.claims.get(name) if topic is Topic.CLAIM else None
            if claim is not None and (at := claim.launched_at) is not None:
                self._launched[claim.pool] = max(at, self._launched.get(claim.pool, at))

    def _compare(self) -> None:
        """Find pools that accept the same pods, if a pool or a class changed since the last reconcile."""
        pools = self._view.specs()
        names = sorted({pool.spec.template.spec.node_class_ref.name for pool in pools})
        classes = [node_class for name in names if (node_class := self._view.node_class(name)) is not None]
        objects = [*(pool.metadata for pool in pools), *(class_record.metadata for class_record in classes)]
        present = [(metadata.uid, metadata.generation, metadata.deletion_timestamp) for metadata in objects]
        if present != self._compared:
            self._overlaps, self._compared = overlapping(pools, self._view.node_class), present

    async def _reconcile_pool(self, record: ObjectRecord) -> None:
        pool = self._view.node_pool(record)
        if pool is None:
            await self._events.report_unreadable(record)
            return
        usage = self._usages.get(record.name, {})
        if self._measured:
            costs = cost_limits(pool, self._policy)
            used = {name: amount for name, amount in cost_usage(record.name, self._costs).items() if name in costs}
            pool_metrics.measure_resources(pool, usage | used, parse_resources(pool.spec.limits) | costs)
            if self._refusals.reported:
                pool_metrics.measure_breaker(
                    record.name, is_open=bool(self._refusals.breakers([self._launched_version(pool)]))
                )
        class_generation = self._class_generation(pool)
        status = self._status(pool, usage, class_generation)
        self._events.log_unknown_values(pool)
        await self._hashes.write(record, pool)
        present = record.status
        changed = {key: value for key, value in status.items() if present.get(key) != value}
        price = self._prices.change(record.name, str(present.get("pricePerHour") or ""))
        if price is not None:
            changed["pricePerHour"] = price
        if not changed:
            return
        if "resources" in changed:
            # A merge patch keeps the names that it does not mention, so set the removed ones to null.
            removed_resources = {
                name: None for name in present.get("resources") or {} if name not in status["resources"]
            }
            changed["resources"] = {**status["resources"], **removed_resources}
        await self._kube.patch(NODEPOOLS, record.name, {"status": changed}, subresource="status")
        if price is not None:
            self._prices.wrote(record.name, price)
        await self._events.publish(record, pool, status)

    def _status(self, pool: NodePool, usage: Resources, class_generation: int | None) -> dict[str, Any]:
        """What the status should say."""
        status: dict[str, Any] = {
            "resources": format_resources(usage),
            "nodes": usage.get(NODES, 0),
            "conditions": [condition.to_dict() for condition in self._conditions(pool, class_generation)],
        }
        if class_generation is not None:
            status["nodeClassObservedGeneration"] = class_generation
        return status

    def _conditions(self, pool: NodePool, class_generation: int | None) -> list[Condition]:
        now, name, generation = utc_now(), pool.metadata.name, pool.metadata.generation
        conditions = pool_conditions(
            pool, self._view.node_class, now, self._view, static_capacity=self._static_capacity
        )
        others = self._overlaps.get(name, ())
        conditions = with_overlap(conditions, others, now=now, observed_generation=generation)
        results = self._registrations.of(pool, class_generation)
        conditions = with_registration_health(conditions, results, now=now, observed_generation=generation)
        if self._refusals.reported:
            breaker = self._refusals.breakers([self._launched_version(pool)]).get(name)
            conditions = with_launch_health(conditions, breaker, now=now, observed_generation=generation)
            launched = self._launched.get(name)
            shortage = self._refusals.shortage(name, launched)
            conditions = with_capacity(
                conditions,
                shortage,
                launched,
                now=now,
                observed_generation=generation,
                sees_all=self._refusals.sees_all_shortages,
            )
        rollout = self._rollouts.get(name)
        versions = {name: (rollout, self._view.newest_revision(pool))} if rollout is not None else {}
        conditions = with_version_held(conditions, versions, now=now, observed_generation=generation)
        schedules_ask = self._view.schedules.now()
        conditions = with_scheduled_off(conditions, name, schedules_ask, now=now, observed_generation=generation)
        if self._slowed.is_reported:
            savings = self._slowed.savings.get(name)
            conditions = with_slowed(conditions, savings, now=now, observed_generation=generation)
        return conditions

    def _class_generation(self, pool: NodePool) -> int | None:
        node_class = self._cache.nodeclasses.get(pool.spec.template.spec.node_class_ref.name)
        generation = node_class.metadata.get("generation") if node_class is not None else None
        return generation if isinstance(generation, int) else None
