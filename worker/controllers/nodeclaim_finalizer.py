"""Puts a NodeClaim's finalizer back when a plain update (`kubectl replace`) wiped it.

A claim without it vanishes with its deletion: the grace period that was asked for would be lost, and when no process
looks at that moment, so would the knowledge that the instance must end, until housekeeping finds it.
"""

from __future__ import annotations

import asyncio
import logging

from activities.kubernetes.bounded_concurrency import bounded
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.nodeclaims import ensure_claim_finalizer
from tenon.apis import labels
from tenon.lifecycle.messages import ClaimRef
from worker.cache.changes import Topic
from worker.cache.cluster import ClusterCache
from worker.runtime.log_rate_limit import LogRateLimiter

log = logging.getLogger("controller.nodeclaim.finalizers")

SETTLE = 1.0
"""Seconds in which changes gather, and until what could not be written is tried again."""
AT_ONCE = 10


class NodeClaimFinalizerController:
    """Guards launched NodeClaims. Before the launch their own workflows put the finalizer on."""

    def __init__(self, kube: Kube, cache: ClusterCache, cluster: str) -> None:
        self._kube = kube
        self._cache = cache
        self._cluster = cluster
        self._unwritten: set[str] = set()
        self._log_limiter = LogRateLimiter()

    async def run(self) -> None:
        """Serve until cancelled."""
        with self._cache.subscribe([Topic.CLAIM]) as news:
            await self._cache.wait_synced()
            names = {claim.name for claim in self._cache.claims}
            while True:
                self._unwritten = set()
                await bounded(sorted(filter(self._bare, names)), AT_ONCE, self._guard)
                changes = news.take() if self._unwritten else await news.next()
                await asyncio.sleep(SETTLE)
                names = self._unwritten | {name for _, name in (*changes, *news.take())}

    def _bare(self, name: str) -> bool:
        """Whether this is a launched claim that lives on and lacks its finalizer."""
        claim = self._cache.claims.get(name)
        if claim is None or claim.deleting or not claim.status.get("providerID"):
            return False
        return labels.TERMINATION_FINALIZER not in (claim.body["metadata"].get("finalizers") or ())

    async def _guard(self, name: str) -> None:
        claim = self._cache.claims.get(name)
        if claim is None:
            return
        try:
            if await ensure_claim_finalizer(self._kube, ClaimRef(cluster=self._cluster, name=name, uid=claim.uid)):
                log.info("put back the finalizer of a nodeclaim", extra={"nodeclaim": name})
        except ApiError as error:
            self._unwritten.add(name)
            if self._log_limiter.count(error.status) is not None:
                log.warning("finalizer not put back yet", extra={"nodeclaim": name, "error": str(error)})
