"""Creates and deletes NodeClaims until a static NodePool has `spec.replicas` of them.

The cache says which pools may have something to do. Before the controller creates or deletes anything, it reads the
NodePool and then its NodeClaims from the API server, and decides again. New names count on from the ordinal on the
NodePool, which moves on once all of them are written. A reader of the old ordinal, be it a retry or a second leader,
writes what exists already; a reader of the new ordinal sees the claims. Only a leader that stalls between its read and
its write, while another leader serves the same pool, can create or delete one too many, and the next reconcile corrects
that. The workflow of a node does the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial

from activities import metrics
from activities.clock import utc_now
from activities.cluster_view.interfaces import Types
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ConflictError
from activities.kubernetes.nodeclaim_deletion import delete_with_finalizer
from activities.kubernetes.resources import NODECLAIMS, NODEPOOLS
from activities.provisioning.launch_refusals import LaunchRefusals
from activities.provisioning.offerings import Unavailable, instance_types_by_pool
from tenon.apis import labels
from tenon.apis.managed import manages_claim
from tenon.apis.nodepool import NodePool
from tenon.apis.reasons import Reason
from tenon.apis.validation import parse
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.records import ObjectRecord
from tenon.messages.explanation import Explanation
from tenon.messages.node import Removal
from tenon.provisioning.claims import static_claim_body
from tenon.provisioning.cost_limits import cost_limits
from tenon.provisioning.overlays import Overlaid
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.provisioning.static_capacity import (
    MAX_CHANGES,
    ReplicaBalance,
    StaticClaim,
    StaticDecision,
    balance,
    decide,
    next_ordinal,
    why_no_new_nodes,
)
from tenon.provisioning.static_node import affordable_nodes, static_node
from tenon.scheduling.empty_node import NoEmptyNodeError
from tenon.scheduling.model import PlannedClaim
from worker.cache.changes import Change, Topic
from worker.cache.cluster import ClusterCache
from worker.cache.planning_view import PlanningView
from worker.controllers.base import Controller
from worker.controllers.provisioning.launch_backoff import LaunchBackoff, LaunchBackoffs
from worker.controllers.provisioning.purchase_turns import PurchaseTurns
from worker.controllers.provisioning.static_nodeclaims import claims_by_pool, static_claim, with_eviction_cost

RESYNC = 30.0
REASON = Reason.OVERPROVISIONED


class StaticNodePoolController(Controller):
    """Creates and deletes the NodeClaims of every static NodePool."""

    name = "static"
    object_field = "nodepool"
    topics = (Topic.POOL, Topic.NODECLASS, Topic.CLAIM, Topic.NODE)
    resync = RESYNC

    def __init__(
        self,
        kube: Kube,
        cache: ClusterCache,
        view: PlanningView,
        types: Types,
        policy: PlanPolicy,
        turns: PurchaseTurns,
        refusals: LaunchRefusals,
    ) -> None:
        """``policy``: the operator's settings that limit which instance types a node may have."""
        super().__init__(cache)
        self._kube = kube
        self._view = view
        self._types = types
        self._policy = policy
        self._turns = turns
        self._refusals = refusals
        self._backoffs = LaunchBackoffs()

    async def reconcile(self, changes: Sequence[Change]) -> float | None:  # noqa: ARG002
        """Check all static pools, because the cache cannot tell which of them a deleted claim belonged to."""
        static = [record for record in self._cache.pools if record.spec.get("replicas") is not None]
        self._backoffs.forget_all_but({record.uid for record in static})
        claims = claims_by_pool(self._cache, {record.name for record in static})
        unfinished: set[str] = set()

        async def one(record: ObjectRecord) -> None:
            pool = self._view.node_pool(record)  # the NodePool controller reports a pool that cannot be parsed
            if (
                pool is not None
                and self._is_out_of_date(self._view.launching(pool), claims[record.name])
                and await self._reconcile_pool(record)
            ):
                unfinished.add(record.name)

        await asyncio.gather(*(self.isolate(record.name, one(record)) for record in static))
        return 0.0 if unfinished else None

    def _is_out_of_date(self, pool: NodePool, cached: list[StaticClaim]) -> bool:
        """Whether the cache shows something to do, so that it is worth reading from the API server."""
        backoff = self._backoffs.of(pool)
        backoff.launched(claim.name for claim in cached if claim.launched)
        balance = _balance(pool, cached)
        if balance.held_back:
            self._log_reason(pool.metadata.name, f"limits.nodes prevents {balance.held_back} of its replicas")
        if balance.surplus or not balance.missing:
            return balance.surplus > 0
        now = asyncio.get_running_loop().time()
        return (backoff.needs_fresh_list(cached) and not backoff.wait(now)) or self._may_make(pool, backoff) > 0

    async def _reconcile_pool(self, record: ObjectRecord) -> bool:
        """Bring a pool closer to its replicas. Returns whether there is more to do immediately."""
        pool = await self._read_pool(record.name, record.uid)
        if pool is None:
            return False
        # after the pool: a reader of an ordinal that moved on must see the claims that it moved past
        selector = f"{labels.NODEPOOL}={record.name}"
        bodies = await self._kube.list(NODECLAIMS, label_selector=selector)
        listed = [ClaimRecord.of(body) for body in bodies if manages_claim(body)]
        static_claims = [static_claim(self._cache, claim) for claim in listed]
        backoff = self._backoffs.of(pool)
        backoff.read(static_claims, asyncio.get_running_loop().time())
        balance = _balance(pool, static_claims)
        if balance.surplus:
            now = utc_now()
            static_claims = [with_eviction_cost(self._cache, claim, now) for claim in listed]
        decision = decide(pool, static_claims, self._may_make(pool, backoff) if balance.missing else 0)
        await self._delete(pool, decision, backoff)
        if decision.create:
            limits_cost = bool(cost_limits(pool, self._policy))
            async with self._turns.next(limits_cost=limits_cost) as bought:
                is_bought = await self._create(pool, decision, backoff, bought)
            if is_bought:
                await self._advance_ordinal(pool, decision.next_ordinal)
        return MAX_CHANGES in (len(decision.create), len(decision.delete))

    async def _read_pool(self, name: str, uid: str | None) -> NodePool | None:
        """Read the NodePool from the API server, in the version that it launches.

        None if it is gone, was replaced or cannot be parsed.
        """
        body = await self._kube.get(NODEPOOLS, name)
        pool = parse(NodePool, body)[0] if body is not None and body["metadata"]["uid"] == uid else None
        return self._view.launching(pool) if pool is not None else None

    def _may_make(self, pool: NodePool, backoff: LaunchBackoff) -> int:
        """How many NodeClaims may be created for a pool that lacks some. If none, the reason is logged."""
        now = asyncio.get_running_loop().time()
        count = backoff.allowed_creations(now)
        if count == 0:
            when = f"starts in {seconds:.0f} s" if (seconds := backoff.wait(now)) else "is in progress"
            self._log_reason(
                pool.metadata.name, f"nothing could be launched for it: the next attempt, with one NodeClaim, {when}"
            )
        elif why := why_no_new_nodes(pool, self._view.node_class, self._view):
            self._log_reason(pool.metadata.name, why)
            return 0
        return count

    async def _delete(self, pool: NodePool, decision: StaticDecision, backoff: LaunchBackoff) -> None:
        for claim in decision.delete:
            backoff.deleted(claim.name)
            detail = f"NodePool {pool.metadata.name} has more nodes than its replicas"
            removal = Removal(reason=REASON, detail=detail, actor=f"controller {self.name}")
            if await delete_with_finalizer(self._kube, claim.record, removal):
                mode = claim.record.termination_mode
                cached_claim = self._cache.claims.get(claim.name)
                capacity_type = cached_claim.labels.get(labels.CAPACITY_TYPE, "") if cached_claim is not None else ""
                metrics.CLAIMS_DISRUPTED.labels(REASON, pool.metadata.name, capacity_type, "", mode).inc()
                self._log.info(
                    "The controller deleted a NodeClaim of a static NodePool",
                    extra={"nodeclaim": claim.name, "nodepool": pool.metadata.name, "reason": REASON},
                )

    async def _create(
        self, pool: NodePool, decision: StaticDecision, backoff: LaunchBackoff, bought: list[str]
    ) -> bool:
        """Create as many of the NodeClaims as limits on costs allow, and add their names to ``bought``. Returns whether
        any can be bought.
        """
        name, missing_nodes = pool.metadata.name, len(decision.create)
        refused = self._refusals.unavailable()
        try:
            try:
                overlaid, planned, why, count = await self._plan(pool, missing_nodes, refused)
            except NoEmptyNodeError:
                if not refused:
                    raise
                # EC2 may have capacity again, and the backoff bounds how often it is asked
                overlaid, planned, why, count = await self._plan(pool, missing_nodes, frozenset())
        except NoEmptyNodeError as error:
            backoff.failed(asyncio.get_running_loop().time())
            self._log_reason(name, f"no node can be created for it: {error}")
            return False
        bought += decision.create[:count]
        for claim in decision.create[:count]:
            with contextlib.suppress(ConflictError):  # another leader created it from the same ordinal
                body = static_claim_body(planned, pool, claim)
                body["metadata"]["annotations"] |= overlaid.overlay_annotations(name, planned.instance_types)
                body["metadata"]["annotations"][labels.EXPLANATION] = why.annotation()
                await self._kube.create(NODECLAIMS, body)
                metrics.CLAIMS_CREATED.labels("provisioned", name, str(planned.min_values_relaxed).lower()).inc()
                self._log.info(
                    "The controller created a NodeClaim of a static NodePool",
                    extra={"nodeclaim": claim, "nodepool": name, "instance-type-count": len(planned.instance_types)},
                )
            backoff.created(claim)
        return True

    async def _plan(
        self, pool: NodePool, missing_nodes: int, refused: Unavailable
    ) -> tuple[Overlaid, PlannedClaim, Explanation, int]:
        """Return the types of the pool, its next node without these offerings, why it is bought, and how many of it.

        Raises:
            NoEmptyNodeError: none can be bought.
        """
        overlaid = await instance_types_by_pool(self._view, self._types, [pool], refused)
        node = partial(
            static_node,
            pool,
            overlaid.pools_with_types[0][1],
            self._view.daemons(),
            self._view.namespaces(),
            self._policy,
            self._view.purchases(),
        )
        limits_cost = bool(cost_limits(pool, self._policy))
        return overlaid, *await asyncio.to_thread(
            partial(affordable_nodes, node, missing_nodes, limits_cost=limits_cost)
        )

    async def _advance_ordinal(self, pool: NodePool, ordinal: int) -> None:
        """Write this ordinal to the pool unless it has a higher one. Retries if other clients write to the pool at the
        same time.
        """
        name, uid = pool.metadata.name, pool.metadata.uid
        current_pool: NodePool | None = pool
        while current_pool is not None and next_ordinal(current_pool) < ordinal:
            metadata = {
                "uid": uid,
                "resourceVersion": current_pool.metadata.resource_version,
                "annotations": {labels.NEXT_ORDINAL: str(ordinal)},
            }
            try:
                await self._kube.patch(NODEPOOLS, name, {"metadata": metadata})
                return
            except ConflictError:
                current_pool = await self._read_pool(name, uid)

    def _log_reason(self, pool: str, why: str) -> None:
        if self._log_limiter.count((pool, why[:40])) is not None:
            self._log.warning("A static NodePool lacks nodes", extra={"nodepool": pool, "error": why})


def _balance(pool: NodePool, claims: list[StaticClaim]) -> ReplicaBalance:
    leaving = sum(claim.leaving for claim in claims)
    replaced = sum(claim.replaced and not claim.leaving for claim in claims)
    return balance(pool, len(claims) - leaving, leaving, replaced)
