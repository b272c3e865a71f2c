"""Updates the status of NodePools (conditions, resources, node count), their hash for drift, and their metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from activities import metrics
from activities.clock import utc_now
from activities.kubernetes.client import Kube
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.resources import NODECLAIMS, NODEPOOLS
from activities.planning.launch_refusals import LaunchRefusals
from activities.planning.slowed_pools import SlowedPools
from tenon.apis import labels
from tenon.apis.conditions import READY, get_condition
from tenon.apis.hashing import NODEPOOL_VERSION, migrated_hashes, nodepool_hashes
from tenon.apis.nodeclaim import DRIFTED
from tenon.apis.nodepool import (
    CONSOLIDATION_SLOWED,
    NODE_LAUNCH_HEALTHY,
    NODE_REGISTRATION_HEALTHY,
    NODES,
    OVERLAPPING,
    NodePool,
)
from tenon.apis.validation import parse, unknown_values
from tenon.disruption.slowed_condition import with_slowed
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.records import ObjectRecord
from tenon.provisioning.launch_breakers import with_launch_health
from tenon.provisioning.pool_overlap import REASON, overlapping, with_overlap
from tenon.provisioning.readiness import pool_conditions
from tenon.provisioning.registration_health import with_registration_health
from tenon.resources import Resources, format_resources
from worker.cache.changes import Change, Topic
from worker.cache.cluster import ClusterCache
from worker.cache.planning_view import PlanningView
from worker.controllers.base import Controller
from worker.controllers.nodepool_metrics import PoolMetrics
from worker.controllers.registration_results import RegistrationResults


class NodePoolStatusController(Controller):
    """Writes the status of every NodePool when something that it reports changed."""

    name = "nodepool"
    object_field = "nodepool"
    topics = (Topic.POOL, Topic.NODECLASS, Topic.CLAIM, Topic.NODE)
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
    ) -> None:
        """Create the controller.

        Args:
            static_capacity: whether the feature gate StaticCapacity is on.
            measured: whether to update the metrics too.
            refusals: what EC2 refuses.
            slowed: the pools whose consolidation saved less than predicted.
        """
        super().__init__(cache)
        self._slowed = slowed or SlowedPools()
        self._refusals = refusals or LaunchRefusals()
        self._measured = measured
        self._metrics = PoolMetrics()
        self._static_capacity = static_capacity
        self._kube = kube
        self._recorder = recorder
        self._view = view
        self._overlaps: dict[str, tuple[str, ...]] = {}
        self._compared: list[tuple[str, int, datetime | None]] = []
        """Name, generation and deletion time of the NodePools that were last compared for overlaps."""
        self._read: dict[str, int] = {}
        """By NodePool: the generation whose values were last checked."""
        self._foreign: dict[str, list[ClaimRecord]] = {}
        """By pool: the NodeClaims without Tenon's hash version, as of this reconcile."""

        self._registrations = RegistrationResults(cache.claims)
        self._usages: Mapping[str, Resources] = {}
        """The usage of each NodePool, as of this reconcile."""

    async def wait_ready(self) -> None:
        """Wait for the cache, and export that it is not synced yet."""
        if self._measured:
            metrics.CLUSTER_SYNCED.set(0)
        await super().wait_ready()
        self._registrations.skip_present()

    async def reconcile(self, changes: Sequence[Change]) -> float | None:
        """Update every NodePool, because most of its status depends on other objects."""
        if self._measured:
            metrics.CLUSTER_NODES.set(len(self._cache.nodes))
            metrics.CLUSTER_SYNCED.set(1)
            self._metrics.forget_all_but({pool.name for pool in self._cache.pools})
        self._compare()
        self._registrations.observe(changes)
        self._registrations.forget_all_but(self._view.node_pools())
        self._foreign = self._hashed_elsewhere()
        self._usages = self._cache.pool_usages(with_leaving=True)
        for record in self._cache.pools:
            await self.isolate(record.name, self._reconcile_pool(record))
        return None

    def _compare(self) -> None:
        """Find pools that accept the same pods, if a pool changed since the last reconcile."""
        pools = self._view.node_pools()
        present = [(p.metadata.name, p.metadata.generation, p.metadata.deletion_timestamp) for p in pools]
        if present != self._compared:
            self._overlaps, self._compared = overlapping(pools), present

    async def _reconcile_pool(self, record: ObjectRecord) -> None:
        pool = self._view.node_pool(record)
        if pool is None:
            await self._refuse(record)
            return
        usage = self._usages.get(record.name, {})
        if self._measured:
            self._metrics.measure(pool, usage)
        now = utc_now()
        conditions = pool_conditions(pool, self._view.node_class, now, static_capacity=self._static_capacity)
        others = self._overlaps.get(record.name, ())
        conditions = with_overlap(conditions, others, now=now, observed_generation=pool.metadata.generation)
        class_generation = self._class_generation(pool)
        results = self._registrations.of(pool, class_generation)
        generation = pool.metadata.generation
        conditions = with_registration_health(conditions, results, now=now, observed_generation=generation)
        if self._refusals.known:
            breaker = self._refusals.breakers().get(record.name)
            conditions = with_launch_health(conditions, breaker, now=now, observed_generation=pool.metadata.generation)
            if self._measured:
                self._metrics.measure_breaker(record.name, is_open=breaker is not None)
        if self._slowed.known:
            savings = self._slowed.savings.get(record.name)
            conditions = with_slowed(conditions, savings, now=now, observed_generation=generation)
        status: dict[str, Any] = {
            "resources": format_resources(usage),
            "nodes": usage.get(NODES, 0),
            "conditions": [
                condition.model_dump(by_alias=True, exclude_none=True, mode="json") for condition in conditions
            ],
        }
        if class_generation is not None:
            status["nodeClassObservedGeneration"] = class_generation
        self._log_unknown_values(pool)
        await self._write_hash(record, pool)
        present = record.status
        changed = {key: value for key, value in status.items() if present.get(key) != value}
        if not changed:
            return
        if "resources" in changed:
            # A merge patch keeps the names that it does not mention, so set the removed ones to null.
            gone = {name: None for name in present.get("resources") or {} if name not in status["resources"]}
            changed["resources"] = {**status["resources"], **gone}
        await self._kube.patch(NODEPOOLS, record.name, {"status": changed}, subresource="status")
        await self._publish(record, pool, status)

    def _class_generation(self, pool: NodePool) -> int | None:
        found = self._cache.nodeclasses.get(pool.spec.template.spec.node_class_ref.name)
        generation = found.metadata.get("generation") if found is not None else None
        return generation if isinstance(generation, int) else None

    async def _publish(self, record: ObjectRecord, pool: NodePool, status: dict[str, Any]) -> None:
        before = get_condition(pool.status.conditions, READY)
        aside = (READY, NODE_LAUNCH_HEALTHY, NODE_REGISTRATION_HEALTHY)
        failed = [c for c in status["conditions"] if c["status"] == "False" and c["type"] not in aside]
        was_ready = before is None or before.status == "True"
        if failed and (was_ready or record.condition("Ready").get("message") is None):
            for condition in failed:
                await self._recorder.publish(_reference(record), condition["reason"], condition["message"], "Warning")
            self._log.warning(
                "A NodePool is not ready",
                extra={"nodepool": record.name, "conditions": {c["type"]: c["message"] for c in failed}},
            )
        health: dict[str, Any] = next((c for c in status["conditions"] if c["type"] == NODE_LAUNCH_HEALTHY), {})
        health_before = record.condition(NODE_LAUNCH_HEALTHY)
        if health.get("status") == "False" and health["message"] != health_before.get("message"):
            await self._recorder.publish(_reference(record), "LaunchesHeldBack", health["message"], "Warning")
        slowed = next((c["message"] for c in status["conditions"] if c["type"] == CONSOLIDATION_SLOWED), "")
        if slowed and slowed != record.condition(CONSOLIDATION_SLOWED).get("message"):
            await self._recorder.publish(_reference(record), CONSOLIDATION_SLOWED, slowed, "Warning")
        overlap = next((c["message"] for c in status["conditions"] if c["type"] == OVERLAPPING), "")
        if overlap and overlap != record.condition(OVERLAPPING).get("message"):
            await self._recorder.publish(_reference(record), REASON, overlap, "Warning")

    def _log_unknown_values(self, pool: NodePool) -> None:
        """Log requirement values that no node can have, once for each generation of the pool."""
        name, generation = pool.metadata.name, pool.metadata.generation
        if self._read.get(name) == generation:
            return
        self._read[name] = generation
        for fault in unknown_values(pool.spec.template.spec.requirements):
            self._log.warning(
                "A NodePool names unknown values", extra={"nodepool": name, "error": f"spec.template.spec.{fault}"}
            )

    async def _refuse(self, record: ObjectRecord) -> None:
        """Report a NodePool that cannot be parsed, in an event and in the log. The other pools are not affected."""
        _, faults = parse(NodePool, record.body)
        why = "; ".join(str(fault) for fault in faults)
        self._log.error("A NodePool cannot be read and is left out", extra={"nodepool": record.name, "error": why})
        await self._recorder.publish(_reference(record), "NodePoolValidationFailed", why, "Warning")

    def _hashed_elsewhere(self) -> dict[str, list[ClaimRecord]]:
        found: dict[str, list[ClaimRecord]] = {}
        for claim in self._cache.claims:
            if claim.annotations.get(labels.NODEPOOL_HASH_VERSION) != NODEPOOL_VERSION:
                found.setdefault(claim.pool, []).append(claim)
        return found

    async def _write_hash(self, record: ObjectRecord, pool: NodePool) -> None:
        wanted = nodepool_hashes(pool)
        ours = record.annotations.get(labels.NODEPOOL_HASH_VERSION) == NODEPOOL_VERSION
        # Write the claims first: if this stops half-way, the pool still shows another controller's hash. Look for
        # claims with another's hash at every reconcile: the cache may see one after the pool already has Tenon's hash.
        for claim in self._foreign.get(record.name, ()):
            if ours and labels.NODEPOOL_HASH_VERSION not in claim.annotations:
                continue  # no controller has hashed it
            drifted = claim.is_true(DRIFTED)
            if change := migrated_hashes(claim.annotations, wanted, drifted=drifted):
                await self._kube.patch(NODECLAIMS, claim.name, {"metadata": {"annotations": change}})
        if any(record.annotations.get(key) != value for key, value in wanted.items()):
            await self._kube.patch(NODEPOOLS, record.name, {"metadata": {"annotations": wanted}})


def _reference(record: ObjectRecord) -> dict[str, Any]:
    """A reference to the NodePool for events, with the kind, which list items do not state."""
    return {"apiVersion": NODEPOOLS.api_version, "kind": NODEPOOLS.kind, "metadata": record.body["metadata"]}
