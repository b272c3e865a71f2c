"""Keeps the conditions Drifted and Consolidatable of NodeClaims (DIS-30, DIS-70 to DIS-75).

Drift acts on the first, users read both. The controller looks only at NodeClaims that changed, whose NodePool or
EC2NodeClass changed, or that are due, and only at some of them at once: a change of a NodePool concerns all its nodes.

Pods come and go all the time, and concern only Consolidatable. A pod event can end it, but never hasten it, so a node
that is not consolidatable is not looked at before the time that was last known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from activities.clock import utc_now
from activities.cluster_view.interfaces import Types
from activities.ec2.errors import EC2Error
from activities.kubernetes.bounded_concurrency import bounded
from activities.kubernetes.client import Kube
from activities.kubernetes.nodeclaims import ConditionUpdate, update_conditions
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodeclaim import CONSOLIDATABLE, DRIFTED
from tenon.apis.nodepool import NodePool
from tenon.disruption.pool_policy import PoolPolicy, policy_of
from tenon.disruption.rules.consolidatable import consolidatable_at
from tenon.disruption.rules.drifted import DesiredNode, may_still_hold
from tenon.ec2.families.own_kubelet import with_own_kubelet
from tenon.kube.claim_record import LAST_POD_EVENT_TIME, ClaimRecord
from tenon.kube.records import ObjectRecord
from tenon.kube.timestamps import format_instant, from_epoch
from tenon.messages.base import ClaimRef
from tenon.provisioning.pools import is_dedicated
from tenon.scheduling.model import InstanceType
from worker.cache.changes import Change, Topic
from worker.cache.cluster import ClusterCache
from worker.cache.planning_view import PlanningView
from worker.controllers.base import Controller

TYPES_AGE = timedelta(minutes=5)
"""How old the instance types may be that NodeClaims are compared with."""
TYPES_RETRY = timedelta(seconds=20)
"""How soon instance types are read again that EC2 did not give."""
MAX_LOOKS = 200
"""Maximum number of NodeClaims to look at in one reconcile, about ten milliseconds on the event loop."""
MAX_DRIFTED, MAX_CONSOLIDATABLE = 50, 10
"""Maximum number of NodeClaims whose condition Drifted, or only Consolidatable, is written in one reconcile. Other
writers of this process share the limit on requests, and Consolidatable changes with the pods of a busy cluster.
"""
CONCURRENCY = 10
RETRY = timedelta(seconds=10)
"""When a NodeClaim whose evaluation or write failed is looked at again."""


@dataclass(frozen=True, slots=True)
class _Pool:
    """A NodePool, and what its NodeClaims are compared with."""

    version: tuple[object, ...]
    node_class: EC2NodeClass | None
    types: Sequence[InstanceType] | None
    types_read_at: datetime
    policy: PoolPolicy
    desired: DesiredNode


@dataclass(frozen=True, slots=True)
class _Update:
    """The conditions of a NodeClaim to set and to remove."""

    claim: ClaimRecord
    updates: tuple[ConditionUpdate, ...]
    cleared: frozenset[str]
    pod_event: datetime | None
    """The last one that was seen; None if the status records it or a later one."""

    @property
    def concerns_drift(self) -> bool:
        return DRIFTED in self.cleared or any(update.type == DRIFTED for update in self.updates)


class NodeClaimDisruptionController(Controller):
    """Writes the conditions Drifted and Consolidatable when they change."""

    name = "nodeclaim.disruption"
    object_field = "nodeclaim"
    topics = (Topic.CLAIM, Topic.NODE_PODS, Topic.POOL, Topic.NODECLASS)
    interval = 1.0
    resync = 60.0

    def __init__(
        self, kube: Kube, cache: ClusterCache, view: PlanningView, types: Types, cluster: str, *, ca_bundle: str = ""
    ) -> None:
        """``ca_bundle`` is the certificate authority of the cluster that new nodes get."""
        super().__init__(cache)
        self._ca_bundle = ca_bundle
        self._kube = kube
        self._view = view
        self._types = types
        self._cluster = cluster
        self._pools: dict[str, _Pool] = {}
        self._queue: dict[str, None] = {}
        """NodeClaims to look at. Those that have waited longest come first."""
        self._pods_queue: dict[str, None] = {}
        """NodeClaims of which only Consolidatable may be wrong. Those that have waited longest come first."""
        self._due: dict[str, datetime] = {}
        """When a NodeClaim is looked at again although nothing changed."""
        self._quiet_at: dict[str, datetime] = {}
        """When the node of a NodeClaim that is not consolidatable may become so, at the earliest."""

    async def reconcile(self, changes: Sequence[Change]) -> float | None:
        """Look at some of the NodeClaims that may need other conditions."""
        now = utc_now()
        self._enqueue(changes, await self._refresh(now), now)
        drifted: list[_Update] = []
        others: list[_Update] = []
        put_back: list[str] = []
        for name in list(self._queue)[:MAX_LOOKS]:
            del self._queue[name]
            update = await self._evaluate_alone(name, now, self._evaluate)
            if update is None:
                continue
            if not update.concerns_drift:
                if len(others) < MAX_CONSOLIDATABLE:
                    others.append(update)
                else:
                    self._pods_queue[name] = None
            elif len(drifted) < MAX_DRIFTED:
                drifted.append(update)
            else:
                put_back.append(name)
        self._queue |= dict.fromkeys(put_back)
        for name in list(self._pods_queue)[:MAX_LOOKS]:
            if len(others) >= MAX_CONSOLIDATABLE:
                break
            del self._pods_queue[name]
            update = await self._evaluate_alone(name, now, self._evaluate_pods_of)
            if update is not None:
                others.append(update)
        await bounded([*drifted, *others], CONCURRENCY, self._write)
        if self._queue or self._pods_queue:
            return 0.0
        earliest = min((*self._due.values(), *self._quiet_at.values()), default=None)
        return None if earliest is None else max(0.0, (earliest - utc_now()).total_seconds())

    def _enqueue(self, changes: Sequence[Change], pools: Collection[str], now: datetime) -> None:
        names: dict[str, None] = {}
        with_pods: dict[str, None] = {}
        for topic, key in changes:
            if topic is Topic.CLAIM:
                names[key] = None
            elif topic is Topic.NODE_PODS:
                node = self._cache.nodes.get(key)
                claim = self._cache.claim_of(node) if node is not None else None
                if claim is not None and (claim.name not in self._quiet_at or claim.condition(CONSOLIDATABLE)):
                    with_pods[claim.name] = None
        if pools:
            names |= {claim.name: None for claim in self._cache.claims if claim.pool in pools}
        names |= {name: None for name, due in self._due.items() if due <= now}
        with_pods |= {name: None for name, due in self._quiet_at.items() if due <= now}
        for name in names:
            self._due.pop(name, None)
            self._quiet_at.pop(name, None)
            self._pods_queue.pop(name, None)
            self._queue.setdefault(name)
        for name in with_pods:
            self._quiet_at.pop(name, None)
            if name not in self._queue:
                self._pods_queue.setdefault(name)

    async def _refresh(self, now: datetime) -> set[str]:
        """Prepare the comparison for each NodePool. Return the pools whose NodeClaims must be compared again."""
        changed: set[str] = set()
        for record in self._cache.pools:
            await self.isolate("", self._refresh_pool(record, changed, now))
        for name in self._pools.keys() - {record.name for record in self._cache.pools}:
            del self._pools[name]
        return changed

    async def _refresh_pool(self, record: ObjectRecord, changed: set[str], now: datetime) -> None:
        pool = self._view.node_pool(record)
        if pool is None:  # the NodePool controller reports it
            self._pools.pop(record.name, None)
            return
        node_class = self._view.node_class(pool.spec.template.spec.node_class_ref.name)
        version = (*record.version_of_spec, record.annotations.get(labels.V1BETA1_KUBELET))
        known_pool = self._pools.get(record.name)
        same = known_pool is not None and known_pool.version == version and _same(known_pool.node_class, node_class)
        if known_pool is not None and same and now < known_pool.types_read_at + TYPES_AGE:
            return
        types, read_at = await self._read_types(pool, node_class), now
        if types is None and known_pool is not None:
            types = known_pool.types
        if types is None and node_class is not None:
            read_at = now - TYPES_AGE + TYPES_RETRY
        if known_pool is not None and same and types is known_pool.types:
            desired = known_pool.desired
        else:
            desired = DesiredNode(pool, node_class, types, ca_bundle=self._ca_bundle)
            changed.add(record.name)
        self._pools[record.name] = _Pool(version, node_class, types, read_at, policy_of(pool), desired)

    async def _read_types(self, pool: NodePool, node_class: EC2NodeClass | None) -> Sequence[InstanceType] | None:
        """All types of the class with every offering, also those that EC2 refuses now. None if they are not known."""
        if node_class is None:
            return None
        own = with_own_kubelet(node_class, pool.metadata.annotations)
        unpriced = bool(self._view.overlays())  # the same list as for planning, so that it is built only once
        try:
            return await asyncio.to_thread(
                self._types.instance_types, own, frozenset(), unpriced=unpriced, dedicated=is_dedicated(pool)
            )
        except EC2Error as error:
            self._log_failure(pool.metadata.name, error)
            return None

    async def _evaluate_alone(
        self, name: str, now: datetime, evaluate: Callable[[str, datetime], _Update | None]
    ) -> _Update | None:
        """What to write on a NodeClaim. None also if that cannot be evaluated, which is retried."""
        update: _Update | None = None

        async def work() -> None:
            nonlocal update
            update = evaluate(name, now)

        if not await self.isolate(name, work()):
            self._due[name] = now + RETRY
        return update

    def _evaluate(self, name: str, now: datetime) -> _Update | None:
        """What to write on a NodeClaim; None if its conditions are right, or if it is leaving."""
        staying_node = self._staying(name)
        if staying_node is None:
            return None
        claim, pool = staying_node
        updates: list[ConditionUpdate] = []
        cleared: set[str] = set()
        due = self._evaluate_drift(claim, pool, now, updates, cleared)
        if due is not None:
            self._due[name] = due
        return self._update(claim, pool, now, updates, cleared)

    def _evaluate_pods_of(self, name: str, now: datetime) -> _Update | None:
        """What to write on a NodeClaim whose pods came or went; None if its condition is right, or if it is leaving."""
        staying_node = self._staying(name)
        return self._update(*staying_node, now, [], set()) if staying_node is not None else None

    def _staying(self, name: str) -> tuple[ClaimRecord, _Pool] | None:
        claim = self._cache.claims.get(name)
        pool = self._pools.get(claim.pool) if claim is not None else None
        return None if claim is None or pool is None or claim.deleting else (claim, pool)

    def _update(
        self, claim: ClaimRecord, pool: _Pool, now: datetime, updates: list[ConditionUpdate], cleared: set[str]
    ) -> _Update | None:
        """Add what concerns Consolidatable. Record the last pod event with it, which saves a write of its own."""
        node = self._cache.node_of(claim)
        last_event = self._cache.last_pod_event(node.name) if node is not None else None
        event = from_epoch(last_event)
        at = self._evaluate_pods(claim, pool, now, event, updates, cleared)
        if at is not None:
            self._quiet_at[claim.name] = at
        if not (updates or cleared):
            return None
        if event is not None and (noted := claim.last_pod_event) is not None and event <= noted:
            event = None
        return _Update(claim, tuple(updates), frozenset(cleared), event)

    def _evaluate_drift(
        self, claim: ClaimRecord, pool: _Pool, now: datetime, updates: list[ConditionUpdate], cleared: set[str]
    ) -> datetime | None:
        present = claim.condition(DRIFTED)
        if not claim.launched:
            cleared |= {DRIFTED} if present else set()
            return None
        verdict = pool.desired.check(claim, now)
        if verdict.drift is not None:
            update = ConditionUpdate(DRIFTED, "True", verdict.drift.reason, verdict.drift.message)
            if (present.get("status"), present.get("reason"), present.get("message")) != (
                update.status,
                update.reason,
                update.message,
            ):
                updates.append(update)
        elif present and not may_still_hold(present.get("reason"), verdict.unknown):
            cleared.add(DRIFTED)
        return verdict.check_again

    def _evaluate_pods(
        self,
        claim: ClaimRecord,
        pool: _Pool,
        now: datetime,
        event: datetime | None,
        updates: list[ConditionUpdate],
        cleared: set[str],
    ) -> datetime | None:
        at = consolidatable_at(claim, pool.policy, event)
        present = claim.condition(CONSOLIDATABLE)
        if at is not None and at <= now:
            if present.get("status") != "True":
                updates.append(ConditionUpdate(CONSOLIDATABLE, "True"))
            return None
        if present:
            cleared.add(CONSOLIDATABLE)
        return at

    async def _write(self, update: _Update) -> None:
        claim = update.claim
        ref = ClaimRef(cluster=self._cluster, name=claim.name, uid=claim.uid)
        write = update_conditions(
            self._kube,
            ref,
            update.updates,
            utc_now,
            fields={LAST_POD_EVENT_TIME: format_instant(update.pod_event)} if update.pod_event is not None else None,
            cleared=update.cleared,
            read_object=claim.body,
        )
        if not await self.isolate(claim.name, write):
            self._due[claim.name] = utc_now() + RETRY
            return
        drift = next((update for update in update.updates if update.type == DRIFTED), None)
        if drift is not None and self._log_limiter.count((claim.pool, drift.reason)) is not None:
            self._log.info(
                "A NodeClaim drifted",
                extra={"nodeclaim": claim.name, "nodepool": claim.pool, "reason": drift.reason, "drift": drift.message},
            )


def _same(known_class: EC2NodeClass | None, node_class: EC2NodeClass | None) -> bool:
    """Whether a NodeClaim compares the same with both versions of a class."""
    if known_class is node_class:
        return True
    if known_class is None or node_class is None:
        return False
    before, after = known_class.metadata, node_class.metadata
    return (
        (before.uid, before.generation, before.deletion_timestamp)
        == (after.uid, after.generation, after.deletion_timestamp)
    ) and known_class.status == node_class.status
