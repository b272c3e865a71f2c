"""Restores a NodeClaim's finalizer that a plain update (`kubectl replace`) removed.

A claim without its finalizer vanishes as soon as it is deleted. The requested grace period would be lost. If no process
watches at that moment, nothing knows that the instance must be terminated until garbage collection finds it.
"""

from __future__ import annotations

from collections.abc import Sequence

from activities.kubernetes.client import Kube
from activities.kubernetes.nodeclaims import ensure_claim_finalizer
from tenon.messages.base import ClaimRef
from worker.cache.changes import Change, Topic
from worker.cache.cluster import ClusterCache
from worker.controllers.base import ObjectController


class NodeClaimFinalizerController(ObjectController):
    """Guards launched NodeClaims. Before the launch their own workflows add the finalizer."""

    name = "nodeclaim.finalizer"
    object_field = "nodeclaim"
    topics = (Topic.CLAIM,)
    settle = 1.0
    backoff = (0.5, 30.0)

    def __init__(self, kube: Kube, cache: ClusterCache, cluster: str) -> None:
        super().__init__(cache)
        self._kube = kube
        self._cluster = cluster

    def initial(self) -> Sequence[Change]:
        """All NodeClaims."""
        return [(Topic.CLAIM, claim.name) for claim in self._cache.claims]

    def needs_reconcile(self, name: str) -> bool:
        """Whether this is a launched claim that is not being deleted and lacks its finalizer."""
        claim = self._cache.claims.get(name)
        return claim is not None and bool(claim.provider_id) and not claim.deleting and not claim.has_finalizer

    async def reconcile_object(self, name: str) -> float | None:
        """Put the finalizer back."""
        claim = self._cache.claims.get(name)
        if claim is not None and await ensure_claim_finalizer(
            self._kube, ClaimRef(cluster=self._cluster, name=name, uid=claim.uid)
        ):
            self._log.info("The controller restored the finalizer of a NodeClaim", extra={"nodeclaim": name})
        return None
