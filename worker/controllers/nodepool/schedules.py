"""Carries out NodeSchedules: wakes what plans when a schedule changes something, and empties NodePools that are off.

Limits, replicas and floors need nothing else: plans and the other controllers read NodePools as schedules have them now
(`worker.cache.planning_view`). The nodes of a NodePool that is off are deleted, so they drain as expired nodes do: with
respect for PodDisruptionBudgets, and for terminationGracePeriod where pods must not be disrupted. Nodes that an
operator keeps stay for that time, and all stay while a DisruptionFreeze holds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from activities import metrics
from activities.clock import utc_now
from activities.kubernetes.bounded_concurrency import bounded
from activities.kubernetes.client import Kube
from activities.kubernetes.nodeclaim_deletion import delete_with_finalizer
from activities.kubernetes.resources import NODESCHEDULES
from activities.reported_gauges import report
from tenon.apis import labels
from tenon.apis.nodepool import NodePool
from tenon.apis.nodeschedule import NodeSchedule
from tenon.apis.reasons import Reason
from tenon.disruption.rules.scheduled_off import off_pool
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.records import ObjectRecord
from tenon.messages.node import Removal
from tenon.provisioning.buffer_status import BufferSimulation
from tenon.provisioning.floors import floors
from tenon.schedule.desired import NOTHING_DESIRED, Desired
from tenon.schedule.node_pools import closed_clause
from tenon.schedule.status import learned_boot_time, schedule_status
from worker.cache.changes import Change, Topic
from worker.cache.cluster import ClusterCache
from worker.cache.evacuating_pods import leaving
from worker.cache.planning_view import PlanningView
from worker.controllers.base import Controller

LONGEST_WAIT = 3600.0
LEARN_AFTER = timedelta(minutes=1)
RETRY = 30.0
CONCURRENCY = 10
REASON = Reason.SCHEDULED_OFF
Rooms = Callable[[], Mapping[str, BufferSimulation]]


class NodeScheduleController(Controller):
    """Looks at all schedules when one of them, a NodePool or a node changes, and when time changes what holds."""

    name = "nodeschedule"
    object_field = "nodeschedule"
    topics = (Topic.SCHEDULE, Topic.POOL, Topic.CLAIM, Topic.FREEZE, Topic.BUFFER, Topic.BUFFER_ROOM)
    interval = 1.0

    def __init__(
        self,
        kube: Kube,
        cache: ClusterCache,
        view: PlanningView,
        rooms: Rooms,
        *,
        capacity_buffers: bool,
    ) -> None:
        """``rooms``: returns what the last plan found for floors. ``capacity_buffers``: the gate CapacityBuffer."""
        super().__init__(cache)
        self._kube = kube
        self._view = view
        self._rooms = rooms
        self._capacity_buffers = capacity_buffers
        self._announced = NOTHING_DESIRED
        """What schedules asked for at the last look."""
        self._boots: Mapping[str, int] = {}
        """By NodePool, how many seconds its nodes took of late."""
        self._boots_until = datetime.min.replace(tzinfo=UTC)
        """When that is looked at again."""

    async def reconcile(self, changes: Sequence[Change]) -> float | None:  # noqa: ARG002 - time changes any of them
        """Look at all schedules."""
        schedules_ask = self._view.schedules.now()
        self._wake(schedules_ask)
        report(metrics.POOLS_OFF, {(name,): 1 for name, demand in schedules_ask.pools.items() if demand.off})
        if not self._cache.schedules:
            return None
        now = utc_now()
        waits = [LONGEST_WAIT]
        if schedules_ask.next_change is not None:
            waits.append((schedules_ask.next_change - now).total_seconds())
        pools = {pool.metadata.name: pool for pool in self._view.specs()}
        by_pool = defaultdict[str, list[ClaimRecord]](list)  # once for all: a cluster may have thousands
        for claim in self._cache.claims:
            by_pool[claim.pool].append(claim)
        self._learn(by_pool, now, waits)
        for name in sorted(name for name, demand in schedules_ask.pools.items() if demand.off and name in pools):
            emptied = self._empty(name, by_pool[name], schedules_ask, waits)
            if not await self.isolate(name, emptied):
                waits.append(RETRY)
        for record in list(self._cache.schedules):
            written = record.deleting or await self.isolate(record.name, self._write(record, schedules_ask, pools, now))
            if not written:
                waits.append(RETRY)
        return max(0.0, min(waits))

    def _wake(self, schedules_ask: Desired) -> None:
        """Tell those who plan about each NodePool and CapacityBuffer of which schedules ask something else."""
        before, self._announced = self._announced, schedules_ask
        if before is schedules_ask:
            return
        for name in before.pools.keys() | schedules_ask.pools.keys():
            if before.pools.get(name) != schedules_ask.pools.get(name):
                self._cache.changes.publish(Topic.POOL, name)
        for key in before.buffers.keys() | schedules_ask.buffers.keys():
            if before.buffers.get(key) != schedules_ask.buffers.get(key):
                self._cache.changes.publish(Topic.BUFFER, "/".join(key))

    async def _empty(
        self, pool: str, pool_claims: Sequence[ClaimRecord], schedules_ask: Desired, waits: list[float]
    ) -> None:
        """Delete the NodeClaims of a NodePool that is off, also of a static one, and those of warm nodes."""
        leaving_claims = self._leaving(pool, pool_claims, waits)
        if not leaving_claims:
            return
        clause = closed_clause(pool, schedules_ask)
        removal = Removal(reason=REASON, detail=f"NodePool {pool}: {clause}", actor=f"controller {self.name}")

        async def delete(claim: ClaimRecord) -> None:
            # A thousand take a while, in which a person may stop what is left.
            current_claim = self._cache.claims.get(claim.name)
            if current_claim is None or not self._leaving(pool, [current_claim], waits):
                return
            if not await self.isolate(claim.name, self._delete(current_claim, removal)):
                waits.append(RETRY)

        await bounded(leaving_claims, CONCURRENCY, delete)

    def _leaving(self, name: str, pool_claims: Sequence[ClaimRecord], waits: list[float]) -> Sequence[ClaimRecord]:
        """Return which of these NodeClaims leave now because their NodePool is off, and add when others may."""
        record, demand = self._cache.pools.get(name), self._view.schedules.now().pools.get(name)
        pool = self._view.node_pool(record) if record is not None else None
        if pool is None or demand is None or not demand.off:
            return ()
        now = utc_now()
        present = [claim for claim in pool_claims if not (claim.deleting or leaving(self._cache.node_of(claim), claim))]
        emptied = off_pool(pool, present, self._view.disruption_freezes(), now)
        waits += [max(1.0, (look - now).total_seconds()) for look in emptied.next_looks]
        return emptied.leaving

    async def _delete(self, claim: ClaimRecord, removal: Removal) -> None:
        if await delete_with_finalizer(self._kube, claim, removal):
            capacity_type = claim.labels.get(labels.CAPACITY_TYPE, "")
            metrics.CLAIMS_DISRUPTED.labels(REASON, claim.pool, capacity_type, "", claim.termination_mode).inc()
            self._log.info(
                "The controller deleted a NodeClaim of a NodePool that is off",
                extra={"nodeclaim": claim.name, "nodepool": claim.pool, "reason": REASON},
            )

    async def _write(
        self, record: ObjectRecord, schedules_ask: Desired, pools: Mapping[str, NodePool], now: datetime
    ) -> None:
        model, faults = self._view.schedules.model(record)
        named_pools = model.spec.node_pools if model is not None else []
        status = schedule_status(
            model,
            record.status,
            [str(fault) for fault in faults],
            schedules_ask,
            {name: self._boots[name] for name in named_pools if name in self._boots},
            [] if model is None or faults or not model.in_force else list(self._obstacles(model, schedules_ask, pools)),
            now=now,
            generation=record.body["metadata"].get("generation"),
        )
        if any(record.status.get(field) != value for field, value in status.items()):
            await self._kube.patch(NODESCHEDULES, record.name, {"status": status}, subresource="status")

    def _learn(self, by_pool: Mapping[str, Sequence[ClaimRecord]], now: datetime, waits: list[float]) -> None:
        """Look at how long nodes took, at most once a minute. What changed meanwhile is looked at after that."""
        if now < self._boots_until:
            waits.append((self._boots_until - now).total_seconds())
            return
        self._boots_until = now + LEARN_AFTER
        boots = ((pool, learned_boot_time(claims)) for pool, claims in by_pool.items())
        self._boots = {pool: seconds for pool, seconds in boots if seconds is not None}

    def _obstacles(self, model: NodeSchedule, schedules_ask: Desired, pools: Mapping[str, NodePool]) -> Iterator[str]:
        """Yield why something that a schedule asks for does not hold, in sentences."""
        for name in model.spec.node_pools:
            pool, demand = pools.get(name), schedules_ask.pools.get(name)
            if pool is None:
                yield f"NodePool {name} does not exist: create it, or remove it from nodePools"
            elif demand is not None and pool.spec.replicas is not None and (demand.floor_nodes or demand.floor_spare):
                yield f"NodePool {name} is static, so a floor has no effect: state replicas instead"
            elif demand is not None and pool.spec.replicas is None and demand.states_replicas:
                yield f"NodePool {name} has no spec.replicas, so replicas have no effect: state a floor instead"
            elif demand is not None and pool.spec.replicas is None:
                for key in floors(pool, demand):
                    room = self._rooms().get(key)
                    if room is not None and room.refused:
                        yield f"NodePool {name} lacks room for its floor: {room.refused}"
        headroom = {(item.namespace, item.name) for entry in model.spec.entries for item in entry.headroom}
        if headroom and not self._capacity_buffers:
            yield "headroom needs CapacityBuffers: start the worker with FEATURE_GATES=CapacityBuffer=true"
            return
        for namespace, name in sorted(headroom):
            if self._cache.buffers.get(f"{namespace}/{name}") is None:
                yield f"CapacityBuffer {namespace}/{name} does not exist: create it, or remove it from headroom"
