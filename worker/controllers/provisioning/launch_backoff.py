"""Backs off when EC2 has no capacity, so that a static pool does not recreate failed claims in a tight loop.

A NodeClaim that EC2 refuses is gone within a second. The pause grows up to the three minutes for which a refused
offering is avoided. After the pause one NodeClaim is created, and the others once that one is launched. The backoff
ends as soon as a node of the pool is launched or the pool is changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from tenon.apis.nodepool import NodePool
from tenon.provisioning.static_capacity import MAX_CHANGES, StaticClaim

PAUSES = (30.0, 60.0, 120.0, 180.0)
"""Seconds to wait after the first, second, ... round that launched nothing. The last value repeats."""


class LaunchBackoff:
    """Tracks the NodeClaims that were created for one static pool, in one generation of its spec."""

    def __init__(self, generation: int) -> None:
        """``generation``: the generation of the NodePool."""
        self.generation = generation
        self._awaited: set[str] = set()
        self._counted: set[str] = set()
        """Awaited claims whose round has already failed. A round fails once, however many of its claims end one after
        the other.
        """
        self._failed = 0
        self._until = float("-inf")

    def created(self, name: str) -> None:
        """Record that a NodeClaim was created."""
        self._awaited.add(name)

    def deleted(self, name: str) -> None:
        """Record that Tenon deleted a claim itself, so that its end does not count as a failed launch."""
        self._awaited.discard(name)

    def launched(self, names: Iterable[str]) -> None:
        """Record the NodeClaims that have an instance. The caller's view may be old, because a launch is never
        undone.
        """
        launched = self._awaited.intersection(names)
        if launched:
            self._awaited -= launched
            self._counted.clear()
            self._failed = 0
            self._until = float("-inf")

    def read(self, claims: Sequence[StaticClaim], now: float) -> None:
        """Evaluate a fresh list from the API server. An awaited claim that is gone, or leaves without an instance, has
        failed.
        """
        self.launched(claim.name for claim in claims if claim.launched)
        ended = self._awaited.difference(claim.name for claim in claims if not claim.leaving)
        self._awaited -= ended
        if ended - self._counted:
            self._counted = set(self._awaited)
            self.failed(now)

    def failed(self, now: float) -> None:
        """Record that a round launched nothing, or found nothing that it could buy."""
        self._until = now + PAUSES[min(self._failed, len(PAUSES) - 1)]
        self._failed += 1

    def needs_fresh_list(self, claims: Iterable[StaticClaim]) -> bool:
        """Whether a view that may be old lacks an awaited claim, so that only the API server can say whether
        it ended.
        """
        return not self._awaited.issubset(claim.name for claim in claims if not claim.leaving)

    def wait(self, now: float) -> float:
        """Seconds until the next attempt. 0 if it may start now."""
        return max(0.0, self._until - now)

    def allowed_creations(self, now: float) -> int:
        """How many NodeClaims may be created. After a failure it is one, and none while that one has no result yet."""
        if self.wait(now) > 0:
            return 0
        if self._failed:
            return 0 if self._awaited else 1
        return MAX_CHANGES


class LaunchBackoffs:
    """The backoff of each NodePool that buys nodes without pods, in the newest generation of its spec seen so far."""

    def __init__(self) -> None:
        self._of_pools: dict[str, LaunchBackoff] = {}
        """By UID."""

    def of(self, pool: NodePool) -> LaunchBackoff:
        """Return the backoff of a pool, which ends with a newer generation. ``pool`` may be an older one."""
        uid, generation = pool.metadata.uid or "", pool.metadata.generation or 0
        backoff = self._of_pools.get(uid)
        if backoff is None or backoff.generation < generation:
            backoff = self._of_pools[uid] = LaunchBackoff(generation)
        return backoff

    def forget_all_but(self, uids: Collection[str]) -> None:
        """Forget the pools that no longer exist, or that no longer need a backoff."""
        self._of_pools = {uid: backoff for uid, backoff in self._of_pools.items() if uid in uids}
