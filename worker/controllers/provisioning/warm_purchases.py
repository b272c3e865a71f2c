"""Buys warm nodes, one at a time, so that each counts for the limits of the next."""

from __future__ import annotations

import asyncio
import uuid

from activities import loggers, metrics
from activities.cluster_view.interfaces import Types
from activities.kubernetes.client import Kube
from activities.kubernetes.event_references import pool_reference
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.resources import NODECLAIMS
from activities.provisioning.offerings import instance_types_by_pool
from tenon.apis.nodepool import NodePool
from tenon.kube.event_reasons import EventReason
from tenon.provisioning.claims import name_after, warm_claim_body
from tenon.provisioning.cost_limits import cost_limits
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.provisioning.static_capacity import why_no_new_nodes
from tenon.provisioning.warm_nodes import warm_node
from tenon.scheduling.empty_node import NoEmptyNodeError
from worker.cache.cluster import ClusterCache
from worker.cache.planning_view import PlanningView
from worker.controllers.provisioning.launch_backoff import LaunchBackoff
from worker.controllers.provisioning.purchase_turns import PurchaseTurns
from worker.log_rate_limit import LogRateLimiter

log = loggers.WARM_NODES

SHOWN_WITHIN = 3.0
"""Seconds for which a purchase waits until the cache has its NodeClaim."""


class WarmPurchases:
    """Buys for the controller of warm nodes."""

    def __init__(
        self,
        kube: Kube,
        recorder: EventPublisher,
        cache: ClusterCache,
        view: PlanningView,
        types: Types,
        policy: PlanPolicy,
        turns: PurchaseTurns,
    ) -> None:
        self._kube = kube
        self._recorder = recorder
        self._cache = cache
        self._view = view
        self._types = types
        self._policy = policy
        self._turns = turns
        self._log_limiter = LogRateLimiter()

    def cannot_buy(self, pool: NodePool) -> bool:
        """Whether a NodePool cannot buy nodes at all now. The log says why."""
        why = why_no_new_nodes(pool, self._view.node_class, self._view)
        if why:
            self._lacking(pool, why)
        return bool(why)

    async def buy(self, pool: NodePool, backoff: LaunchBackoff) -> bool:
        """Buy one warm node when it is its turn. Return whether it is bought."""
        limits_cost = bool(cost_limits(pool, self._policy))
        async with self._turns.next(limits_cost=limits_cost) as bought:
            claim = await self._create(pool, backoff, bought)
        if claim:
            await self._cache.wait_for_claims(
                [claim], SHOWN_WITHIN
            )  # the pool's usage must have it before the next one
        return bool(claim)

    async def _create(self, pool: NodePool, backoff: LaunchBackoff, bought: list[str]) -> str:
        """Create a NodeClaim, and add its name to ``bought``. Returns the name; empty if nothing can be bought."""
        if self.cannot_buy(pool):  # its EC2NodeClass may have been deleted while it waited for its turn
            return ""
        name = pool.metadata.name
        try:
            overlaid = await instance_types_by_pool(self._view, self._types, [pool])
            planned, why = await asyncio.to_thread(
                warm_node,
                pool,
                overlaid.pools_with_types[0][1],
                self._view.pool_usage(name),
                self._view.daemons(),
                self._view.namespaces(),
                self._policy,
                self._view.purchases(),
            )
        except NoEmptyNodeError as error:
            backoff.failed(asyncio.get_running_loop().time())
            self._lacking(pool, str(error))
            await self._recorder.publish(
                pool_reference(pool), EventReason.WARM_NODES_LACKING, f"no warm node can be bought: {error}"
            )
            return ""
        body = warm_claim_body(planned, pool, name_after(name, f"warm/{uuid.uuid4().hex}"), why)
        body["metadata"]["annotations"] |= overlaid.overlay_annotations(name, planned.instance_types)
        claim: str = body["metadata"]["name"]
        bought.append(claim)
        await self._kube.create(NODECLAIMS, body)
        backoff.created(claim)
        metrics.CLAIMS_CREATED.labels("provisioned", name, str(planned.min_values_relaxed).lower()).inc()
        log.info("The controller buys a warm node", extra={"nodeclaim": claim, "nodepool": name})
        return claim

    def _lacking(self, pool: NodePool, why: str) -> None:
        if self._log_limiter.count((pool.metadata.name, why[:40])) is not None:
            extra = {"nodepool": pool.metadata.name, "error": why}
            log.warning("A NodePool lacks warm nodes", extra=extra)
