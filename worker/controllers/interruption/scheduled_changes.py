"""Limits how many nodes leave at the same time because of scheduled changes of their instances (AWS-141, AWS-147).

EC2 announces a scheduled change days before. Nothing is lost if a node leaves an hour later, but a burst of messages or
a wrong answer could end a whole NodePool at once. The limit is that of node repair (SCH-104). It holds for the cluster:
SQS hands messages to all replicas, but only the leader lets nodes go, and its two controllers share one limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tenon.disruption.repair.breaker import Breaker
from tenon.kube.claim_record import ClaimRecord
from worker.cache.cluster import ClusterCache


class ScheduledChangeLimit:
    """Counts the nodes of each NodePool that leave."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self.leads = False
        """Whether this replica leads."""
        self._admitted: set[str] = set()
        """The UIDs of NodeClaims that this object let go."""
        self._breaker = Breaker(())
        self._counted_at = float("-inf")

    @contextmanager
    def leading(self) -> Iterator[None]:
        """Lead in this context."""
        self.leads = True
        try:
            yield
        finally:
            self.leads = False

    def count(self, leaves: Callable[[ClaimRecord], bool], older_than: float = 0.0) -> None:
        """Count the nodes, unless the last count is younger than ``older_than`` seconds: it reads all claims.

        ``leaves``: whether a NodeClaim is deleted, even if the cache does not show it yet.
        """
        clock = asyncio.get_running_loop().time()
        if clock < self._counted_at + older_than:
            return
        claims = [claim for claim in self._cache.claims if claim.provider_id]
        self._admitted &= {claim.uid for claim in claims}
        self._breaker = Breaker((claim.pool, leaves(claim) or claim.uid in self._admitted) for claim in claims)
        self._counted_at = clock

    def admit(self, claim: ClaimRecord) -> str:
        """Let a node leave: return an empty string. Or return why it has to wait."""
        if claim.uid in self._admitted:
            return ""
        if why := self._breaker.why_waits(claim.pool):
            return why
        self._breaker.add(claim.pool)
        self._admitted.add(claim.uid)
        return ""
