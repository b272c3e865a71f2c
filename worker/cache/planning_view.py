"""The cluster cache as planning and disruption read it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from datetime import datetime
from typing import TypeVar

from activities import loggers
from activities.cluster_view.interfaces import Fingerprint
from activities.disruption.repair_source import RepairPolicies
from activities.kubernetes.resources import NODECLAIMS, PODS
from tenon.apis import labels
from tenon.apis.base import ApiModel
from tenon.apis.disruptionfreeze import DisruptionFreeze
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodeoverlay import NodeOverlay
from tenon.apis.nodepool import NODE_LAUNCH_HEALTHY, NodePool
from tenon.apis.noderepairpolicy import BUILT_IN, NodeRepairPolicy
from tenon.apis.noderollout import NodeRollout
from tenon.apis.teardown import is_torn_down
from tenon.apis.validation import FieldError, check_nodepool, parse
from tenon.disruption.model import ManagedNode
from tenon.ec2.families.own_kubelet import own_kubelet_errors
from tenon.evolve import evolve
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.pod import Pod
from tenon.kube.records import ObjectRecord
from tenon.provisioning.buffer_status import Resolved
from tenon.provisioning.cost_limits import Purchase
from tenon.provisioning.floors import floors
from tenon.resources import Resources
from tenon.rollout.revisions import (
    Revision,
    class_key,
    effective_class,
    effective_pool,
    newest_revision,
    without_revision,
)
from tenon.rollout.versions import PoolRollout
from tenon.schedule.desired import Desired
from tenon.schedule.node_pools import scheduled_pool
from tenon.scheduling.model import Node
from worker.cache.changes import Topic
from worker.cache.cluster import ClusterCache
from worker.cache.evacuating_pods import leaving
from worker.cache.managed_nodes import ManagedNodes
from worker.cache.new_nodes import is_unused, undeclared_taint
from worker.cache.node_details import quiet_since
from worker.cache.purchases import purchases
from worker.cache.schedules import Schedules
from worker.cache.snapshot import Snapshot
from worker.cache.state import still_needs

log = loggers.CACHE

ModelT = TypeVar("ModelT", bound=ApiModel)
Parsed = tuple[ModelT | None, list[FieldError]]
"""An object's model, None if it cannot be read, and its validation errors."""
Versions = dict[str, tuple[str, Parsed[ModelT]]]
"""By name, the resource version of an object and what it says."""

CATCH_UP_SECONDS = 3.0
"""Seconds to wait until the watch delivers a NodeClaim that the API server has. After that the cache counts as
behind.
"""
QUIET_SECONDS = 5.0
"""A pod watch that received something within this many seconds is up to date."""
REFRESH_SECONDS = 60.0

PLANNING_TOPICS = frozenset(
    {
        Topic.PENDING,
        Topic.CLAIM,
        Topic.NODE,
        Topic.POOL,
        Topic.NODECLASS,
        Topic.NAMESPACE,
        Topic.OVERLAY,
        Topic.BUFFER_ROOM,
        Topic.ROLLOUT,
    }
)
DISRUPTION_TOPICS = frozenset(
    {
        Topic.CLAIM,
        Topic.NODE,
        Topic.NODE_PODS,
        Topic.PENDING,
        Topic.POOL,
        Topic.BUFFER_ROOM,
        Topic.REPAIR_POLICY,
        Topic.FREEZE,
        Topic.ROLLOUT,
    }
)


class PlanningView:
    """A live, read-only view of the cluster. It leaves out objects that cannot be read."""

    def __init__(self, cache: ClusterCache, *, limits_total_cost: bool = False) -> None:
        """``limits_total_cost``: whether a limit on costs applies to all NodePools together."""
        self._cache = cache
        self._limits_total_cost = limits_total_cost
        self._managed = ManagedNodes(cache)
        self._pools: Versions[NodePool] = {}
        self._supplies: dict[str, tuple[ObjectRecord, str]] = {}
        self._classes: Versions[EC2NodeClass] = {}
        self._overlays: Versions[NodeOverlay] = {}
        self._repair_policies: Versions[NodeRepairPolicy] = {}
        self._freezes: Versions[DisruptionFreeze] = {}
        self._node_rollouts: Versions[NodeRollout] = {}
        self._versioned: dict[tuple[str, str], tuple[NodePool, Revision, NodePool, list[FieldError]]] = {}
        """By NodePool and digest: the NodePool as it is, a version, the NodePool of that version, and its problems."""
        self._newest: dict[str, tuple[NodePool, EC2NodeClass | None, Revision | None]] = {}
        """By NodePool, itself and its class, and the version that they make."""
        self._classes_of_versions: dict[str, tuple[EC2NodeClass, Revision, EC2NodeClass]] = {}
        """By key, the EC2NodeClass as it is, a version, and the class of that version."""
        self._own_kubelets: dict[str, tuple[EC2NodeClass, dict[str, list[str]]]] = {}
        self.schedules = Schedules(cache)
        """What NodeSchedules ask for."""
        self._scheduled: dict[str, tuple[NodePool, Desired, NodePool]] = {}
        """By name, a NodePool without schedules, what schedules ask for, and the NodePool that this makes."""

    def synced(self) -> bool:
        """Whether every resource has been read completely once."""
        return self._cache.synced

    def fingerprint(self) -> Fingerprint:
        """A value that changes whenever a pod that did not fit anywhere might fit now."""
        pools = tuple(
            (
                *pool.version_of_spec,
                _ready(pool),
                _launches(pool),
                self._freed(pool),
                is_torn_down(pool.annotations),
                pool.annotations.get(labels.MAX_HOURLY_COST),
            )
            for pool in self._cache.pools
        )
        classes = tuple((*record.version_of_spec, self._found(record)) for record in self._cache.nodeclasses)
        overlays = frozenset(overlay.version_of_spec for overlay in self._cache.overlays)
        versions = frozenset((name, rollout.current) for name, rollout in self.rollouts().items())
        supply = (pools, classes, overlays, versions, self._schedules_version())
        return Fingerprint(supply, self._cache.namespace_changes)

    def _schedules_version(self) -> int:
        """A number that changes with what schedules ask for."""
        self.schedules.now()
        return self.schedules.changes

    def _freed(self, pool: ObjectRecord) -> int:
        """A counter that increases when a NodePool with limits may have room again. 0 for pools without limits."""
        demand = self.schedules.now().pools.get(pool.name)
        if self._limits_total_cost:
            return self._cache.limits_eased.total()
        is_limited = (
            pool.spec.get("limits")
            or labels.MAX_HOURLY_COST in pool.annotations
            or (demand is not None and demand.limits)
        )
        return self._cache.limits_eased[pool.name] if is_limited else 0

    def _found(self, node_class: ObjectRecord) -> str:
        """Whether a class is ready, and the subnets, AMIs and other resources in its status, as text."""
        supply = self._supplies.get(node_class.name)
        if supply is None or supply[0] is not node_class:
            status_fields = {key: value for key, value in node_class.status.items() if key != "conditions"}
            text = f"{_ready(node_class)} {json.dumps(status_fields, sort_keys=True)}"
            supply = self._supplies[node_class.name] = (node_class, text)
        return supply[1]

    def snapshot(self) -> Snapshot:
        """A snapshot of the cluster for use in another thread."""
        pools = self.node_pools()
        keys = {record.name for record in self._cache.nodeclasses}
        keys |= {class_key(pool) for pool in (*pools, *self.wave_pools())}
        classes = {key: node_class for key in keys if (node_class := self.node_class(key)) is not None}
        return Snapshot(self._cache, self._cache.clock(), pools, classes)

    def pending_pods(self) -> list[Pod]:
        """Pods that kube-scheduler could not place, or whose node is leaving."""
        return self._cache.pending_pods()

    def nodes(self) -> list[Node]:
        """Existing and in-flight capacity."""
        return self._cache.scheduling_nodes()

    def daemons(self) -> list[Pod]:
        """One template pod for each DaemonSet."""
        return self._cache.daemons()

    def namespaces(self) -> Mapping[str, Mapping[str, str]]:
        """The labels of every namespace."""
        return self._cache.namespace_labels()

    def node_pools(self) -> list[NodePool]:
        """The NodePools that can be read, each in the version that ordinary launches have, as schedules have it now.

        A NodePool under a rollout keeps the last version that passed, whatever its spec says now.
        """
        pools = self.specs()
        rollouts = self.rollouts()
        return [self._by_schedule(self._launching(pool, rollouts.get(pool.metadata.name))) for pool in pools]

    def specs(self) -> list[NodePool]:
        """The NodePools that can be read, as users wrote them."""
        return [pool for record in self._cache.pools if (pool := self.node_pool(record)) is not None]

    def launching(self, pool: NodePool) -> NodePool:
        """A NodePool, as a user wrote it, in the version that ordinary launches have, as schedules have it now."""
        return self._by_schedule(self._launching(pool, self.rollouts().get(pool.metadata.name)))

    def rollouts(self) -> dict[str, PoolRollout]:
        """By name, what holds for each NodePool that a NodeRollout selects."""
        if not self._cache.versions.rollouts:
            return {}
        return self._cache.versions.by_pool({record.name: record.labels for record in self._cache.pools})

    def wave_pools(self) -> list[NodePool]:
        """The NodePools of which a rollout replaces nodes now, in the version that these nodes get."""
        rollouts = self.rollouts()
        if not any(rollout.wave_claims and rollout.launches_target for rollout in rollouts.values()):
            return []
        pools = []
        for pool in self.specs():
            rollout = rollouts.get(pool.metadata.name)
            if rollout is not None and rollout.wave_claims and rollout.launches_target:
                revision = self._cache.versions.revision(rollout.pool, rollout.replacement)
                if revision is not None:
                    pools.append(self.in_version(pool, revision))
        return pools

    def newest_revision(self, pool: NodePool) -> Revision | None:
        """The version that the spec of a NodePool and its EC2NodeClass make; None while the class is not ready."""
        node_class = self.node_class(pool.spec.template.spec.node_class_ref.name)
        entry = self._newest.get(pool.metadata.name)
        if entry is None or entry[0] is not pool or entry[1] is not node_class:
            entry = self._newest[pool.metadata.name] = (pool, node_class, newest_revision(pool, node_class))
        return entry[2]

    def _launching(self, pool: NodePool, rollout: PoolRollout | None) -> NodePool:
        if rollout is None:
            written = pool.metadata
            metadata = without_revision(written)
            return pool if metadata is written else evolve(pool, metadata=metadata)
        revision = self._cache.versions.revision(rollout.pool, rollout.current) or self.newest_revision(pool)
        return self.in_version(pool, revision) if revision is not None else pool

    def floors(self) -> dict[str, Resolved]:
        """The pods that stand for the floors of NodePools now, by key."""
        pools = self.schedules.now().pools
        result: dict[str, Resolved] = {}
        for name, demand in pools.items():
            record = self._cache.pools.get(name)
            pool = self.node_pool(record) if record is not None and not record.deleting else None
            if pool is not None and pool.spec.replicas is None:
                result |= floors(self.launching(pool), demand)
        return result

    def _by_schedule(self, pool: NodePool) -> NodePool:
        schedules_ask, name = self.schedules.now(), pool.metadata.name
        entry = self._scheduled.get(name)
        if entry is None or entry[0] is not pool or entry[1] is not schedules_ask:
            entry = self._scheduled[name] = (pool, schedules_ask, scheduled_pool(pool, schedules_ask))
        return entry[2]

    def in_version(self, pool: NodePool, revision: Revision) -> NodePool:
        """A NodePool, as a user wrote it, in one of its versions."""
        key = pool.metadata.name, revision.digest
        entry = self._versioned.get(key)
        if entry is None or entry[0] is not pool or entry[1] is not revision:
            effective = effective_pool(pool, revision)
            entry = self._versioned[key] = (pool, revision, effective, check_nodepool(effective))
        return entry[2]

    def node_pool(self, record: ObjectRecord) -> NodePool | None:
        """A NodePool's model, as a user wrote it. None if it cannot be read."""
        return _parsed(self._pools, NodePool, record)[0]

    def pool_faults(self, pool: NodePool) -> list[FieldError]:
        """All problems of a NodePool. They are remembered for the models that the view returns."""
        name = pool.metadata.name
        scheduled = self._scheduled.get(name)
        if scheduled is not None and scheduled[2] is pool:
            pool = scheduled[0]  # what schedules change has no problems of its own
        _, (model, faults) = self._pools.get(name, ("", (None, [])))
        if model is pool:
            return faults
        entry = self._versioned.get((name, pool.metadata.annotations.get(labels.REVISION, "")))
        return entry[3] if entry is not None and entry[2] is pool else check_nodepool(pool)

    def node_class(self, name: str) -> EC2NodeClass | None:
        """The EC2NodeClass of this name or key (`class_key`). None if it does not exist or cannot be read."""
        plain_name, _, version = name.partition("@")
        record = self._cache.nodeclasses.get(plain_name)
        node_class = None if record is None else _parsed(self._classes, EC2NodeClass, record)[0]
        recorded = self._cache.versions.revisions.get(version) if version else None
        if node_class is None or recorded is None:
            return node_class
        entry = self._classes_of_versions.get(name)
        if entry is None or entry[0] is not node_class or entry[1] is not recorded.value:
            effective = effective_class(node_class, recorded.value)
            entry = self._classes_of_versions[name] = (node_class, recorded.value, effective)
        return entry[2]

    def own_kubelet_faults(self, node_class: EC2NodeClass, annotations: Mapping[str, str]) -> list[str]:
        """Why a NodePool's own kubelet settings do not work with its class. Remembered until the class changes."""
        text = annotations.get(labels.V1BETA1_KUBELET)
        if text is None:
            return []
        cached = self._own_kubelets.get(node_class.metadata.name)
        if cached is None or cached[0] is not node_class:
            cached = self._own_kubelets[node_class.metadata.name] = (node_class, {})
        faults = cached[1].get(text)
        if faults is None:
            faults = cached[1][text] = own_kubelet_errors(node_class, annotations)
        return faults

    def overlays(self) -> list[NodeOverlay]:
        """The valid NodeOverlays. Empty while their feature gate is off, because the cache does not read them then."""
        parsed_overlays = [
            (record, parsed) for record in self._cache.overlays if (parsed := self.node_overlay(record))[0]
        ]
        return [
            model
            for record, (model, faults) in parsed_overlays
            if model is not None and not faults and not record.deleting
        ]

    def node_overlay(self, record: ObjectRecord) -> Parsed[NodeOverlay]:
        """A NodeOverlay's model, and its validation errors."""
        return _parsed(self._overlays, NodeOverlay, record)

    def disruption_freezes(self) -> list[DisruptionFreeze]:
        """The DisruptionFreezes that can be read."""
        return [
            model
            for record in self._cache.freezes
            if (model := self.disruption_freeze(record)[0]) is not None and not record.deleting
        ]

    def disruption_freeze(self, record: ObjectRecord) -> Parsed[DisruptionFreeze]:
        """A DisruptionFreeze's model, and its validation errors."""
        return _parsed(self._freezes, DisruptionFreeze, record)

    def node_rollout(self, record: ObjectRecord) -> Parsed[NodeRollout]:
        """A NodeRollout's model, and its validation errors."""
        return _parsed(self._node_rollouts, NodeRollout, record)

    def repair_policies(self) -> RepairPolicies:
        """The NodeRepairPolicies that users wrote, and the names of those that have problems."""
        policies: list[NodeRepairPolicy] = []
        invalid: set[str] = set()
        for record in self._cache.repair_policies:
            model, faults = self.repair_policy(record)
            if model is None or record.deleting or record.name == BUILT_IN:
                continue
            policies.append(model)
            if faults:
                invalid.add(record.name)
        return RepairPolicies(policies, invalid)

    def repair_policy(self, record: ObjectRecord) -> Parsed[NodeRepairPolicy]:
        """A NodeRepairPolicy's model, and its validation errors."""
        return _parsed(self._repair_policies, NodeRepairPolicy, record)

    def pool_usage(self, pool: str) -> Resources:
        """The most that a pool's nodes and claims may use of its limits. Nodes that are leaving count, because they
        still cost.
        """
        return self._cache.pool_usages(with_leaving=True, at_most=True).get(pool, {})

    def purchases(self) -> list[Purchase]:
        """What the nodes and claims of all NodePools were bought as. Those that are leaving still cost."""
        return purchases(self._cache)

    def claim_names(self) -> Set[str]:
        """The names of all NodeClaims."""
        return self._cache.claims.keys()

    def warm_nodes(self) -> dict[str, str]:
        """The state of each warm node that stays and has a Node, by the Node's name."""
        states = {}
        for claim in self._cache.claims:
            if claim.warm and (node := self._cache.node_of(claim)) is not None and not leaving(node, claim):
                states[node.name] = claim.warm
        return states

    def warm_claim(self, node_name: str) -> ClaimRecord | None:
        """The NodeClaim of a warm node; None if it is gone or leaves."""
        node = self._cache.nodes.get(node_name)
        claim = self._cache.claim_of(node) if node is not None else None
        return claim if claim is not None and claim.warm and not leaving(node, claim) else None

    def launching_pools(self) -> Set[str]:
        """The names of the NodePools that have a NodeClaim without an instance."""
        return {claim.pool for claim in self._unlaunched()}

    def launching_claims(self) -> list[ClaimRecord]:
        """The NodeClaims that were planned for pods, have no instance yet, and stay."""
        return [claim for claim in self._unlaunched() if claim.batch]

    def _unlaunched(self) -> Iterator[ClaimRecord]:
        waiting = (claim for claim in self._cache.claims if not claim.launched)
        return (claim for claim in waiting if not leaving(self._cache.node_of(claim), claim))

    def all_claims(self) -> Iterable[ClaimRecord]:
        """All NodeClaims, also those that are being deleted."""
        return self._cache.claims

    def reserved_claims(self) -> list[ClaimRecord]:
        """The NodeClaims that name a capacity reservation in their labels."""
        return [claim for claim in self._cache.claims if labels.RESERVATION_ID in claim.labels]

    def claims_for(self, pod: Pod) -> list[ClaimRecord]:
        """The NodeClaims that were bought for a pod and stay, except those it does not need: it got another node."""
        record = self._cache.pods.get(pod.key)
        own_record = record if record is not None and record.uid == pod.uid else None
        claims = (self._cache.claims.get(name) for name in self._cache.bought.claims_for(pod.uid))
        return [
            claim
            for claim in claims
            if claim is not None
            and (own_record is None or still_needs(claim, own_record))
            and not leaving(self._cache.node_of(claim), claim)
        ]

    def is_unused(self, claim: ClaimRecord, pod: Pod) -> bool:
        """Whether a waiting pod could have had the ready node that was bought for it."""
        return is_unused(self._cache, claim, pod)

    def undeclared_taint(self, claim: ClaimRecord, pod: Pod) -> str:
        """The key of a taint on the claim's Node that the claim does not declare and the pod does not tolerate."""
        return undeclared_taint(self._cache, claim, pod)

    def place_of(self, name: str) -> str:
        """The name under which `nodes` lists what was a Node or NodeClaim of this name when a plan was made.

        A claim is listed under its Node's name once it has one. Empty if it is gone or leaving.
        """
        node = self._cache.nodes.get(name)
        if node is not None:
            return "" if leaving(node, self._cache.claim_of(node)) else name
        claim = self._cache.claims.get(name)
        if claim is None:
            return ""
        node = self._cache.node_of(claim)
        if leaving(node, claim):
            return ""
        return node.name if node is not None and self._cache.claim_of(node) is claim else name

    def newest_batch(self, up_to: int) -> int:
        """The highest batch number on a NodeClaim that is not above ``up_to``. 0 if there is none."""
        return max((claim.batch for claim in self._cache.claims if claim.batch <= up_to), default=0)

    async def catch_up(self, claims: Collection[str]) -> None:
        """Wait until the view holds these NodeClaims, or is newer than this call, which means that the missing ones are
        gone.

        Raises:
            TimeoutError: the API server could not be read.
        """
        if await self._cache.wait_for_claims(claims, CATCH_UP_SECONDS):
            return
        log.warning(
            "The watch of NodeClaims is behind, and the worker lists them again",
            extra={"nodeclaims": sorted(claims)[:10]},
        )
        await self._cache.refresh(NODECLAIMS, REFRESH_SECONDS)

    async def confirm_pods(self) -> bool:
        """Make sure that the pods are at most a few seconds old. Returns whether they had to be listed again.

        Raises:
            TimeoutError: the API server could not be read.
        """
        silent = self._cache.silent_for(PODS)
        if silent <= QUIET_SECONDS:
            return False
        log.info(
            "The watch of pods is quiet, and the worker lists them again before a launch",
            extra={"silent-seconds": round(silent)},
        )
        await self._cache.refresh(PODS, REFRESH_SECONDS)
        return True

    def quiet_since(self) -> dict[str, datetime]:
        """When the last pod came to each initialized node or left it, or when it was initialized, by NodeClaim."""
        quiet = {}
        for claim in self._cache.claims:
            node = self._cache.node_of(claim) if claim.initialized else None
            since = quiet_since(self._cache, claim, node) if node is not None else None
            if since is not None:
                quiet[claim.name] = since
        return quiet

    def evictions_allowed(self) -> int:
        """How often a PodDisruptionBudget may have begun to allow evictions."""
        return self._cache.moving.evictions_allowed

    def pods_released(self) -> dict[str, int]:
        """How often a pod with do-not-disrupt ended, went away or lost the annotation, by NodeClaim."""
        released = self._cache.pods_released
        nodes = ((claim.name, self._cache.node_of(claim)) for claim in self._cache.claims)
        return {claim: released[node.name] for claim, node in nodes if node is not None and node.name in released}

    def requests_on_nodes(self) -> dict[str, Resources]:
        """What the pods of each node request, by NodeClaim."""
        nodes = ((claim.name, self._cache.node_of(claim)) for claim in self._cache.claims)
        return {claim: self._cache.used(node.name) for claim, node in nodes if node is not None}

    def managed_nodes(self) -> list[ManagedNode]:
        """The nodes that disruption may consider."""
        return self._managed.now()

    def nodes_without_pool(self) -> list[ManagedNode]:
        """The nodes whose NodeClaim belongs to no NodePool."""
        return self._managed.without_pool()

    async def changed(self, seconds: float) -> None:
        """Wait for the next change that may affect which pods need a decision, for at most ``seconds``."""
        await self._wait_for_change(PLANNING_TOPICS, seconds)

    async def nodes_changed(self, seconds: float) -> None:
        """Wait for the next change that may affect `managed_nodes`, for at most ``seconds``."""
        await self._wait_for_change(DISRUPTION_TOPICS, seconds)

    async def _wait_for_change(self, topics: Collection[Topic], seconds: float) -> None:
        with self._cache.subscribe(topics) as news, contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await news.next()


def _parsed(versions: Versions[ModelT], model: type[ModelT], record: ObjectRecord) -> Parsed[ModelT]:
    cached = versions.get(record.name)
    if cached is None or cached[0] != record.resource_version:
        cached = versions[record.name] = (record.resource_version, parse(model, record.body))
    return cached[1]


def _ready(record: ObjectRecord) -> str:
    return str(record.condition("Ready").get("status", ""))


def _launches(pool: ObjectRecord) -> bool:
    """Whether EC2 accepts the pool's launches, as far as is known."""
    return bool(pool.condition(NODE_LAUNCH_HEALTHY).get("status", "True") == "True")
