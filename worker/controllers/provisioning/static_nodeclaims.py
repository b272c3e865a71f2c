"""The NodeClaims of static NodePools in the form that their controller uses.

A reconcile follows nearly every change in the cluster, so reading all claims must be cheap. The cost of evicting a
node's pods is computed only for a pool that has too many nodes.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from tenon.disruption.search.cost import rescheduling_cost
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.protection import pod_protection
from tenon.provisioning.static_capacity import StaticClaim
from worker.cache.cluster import ClusterCache
from worker.cache.evacuating_pods import leaving
from worker.cache.managed_nodes import protection_of


def claims_by_pool(cache: ClusterCache, pools: Collection[str]) -> dict[str, list[StaticClaim]]:
    """The cached NodeClaims of these NodePools."""
    pool_claims: dict[str, list[StaticClaim]] = {name: [] for name in pools}
    for claim in cache.claims:
        of_pool = pool_claims.get(claim.pool)
        if of_pool is not None:
            of_pool.append(static_claim(cache, claim))
    return pool_claims


def static_claim(cache: ClusterCache, claim: ClaimRecord) -> StaticClaim:
    """A NodeClaim, without the cost of evicting its pods."""
    return StaticClaim(claim, leaving=leaving(cache.node_of(claim), claim))


def with_eviction_cost(cache: ClusterCache, claim: ClaimRecord, now: datetime) -> StaticClaim:
    """A NodeClaim, with the cost of evicting its pods and whether it is protected."""
    node = cache.node_of(claim)
    pods = [pod for pod in cache.pods_on(node.name) if pod.reschedulable] if node is not None else []
    return replace(
        static_claim(cache, claim),
        empty=not pods,
        cost=rescheduling_cost(cache.eviction_terms(pod) for pod in pods),
        protected=bool(protection_of(claim, node, now)) or any(pod_protection(pod, now) for pod in pods),
    )
