"""Waits where EC2 has nothing to sell: a static pool whose new nodes end unlaunched would else make them anew at once.

A NodeClaim that EC2 refuses is gone within a second. The pause grows up to the three minutes for which a refused
offering is avoided, and is over as soon as a node of the pool is launched or the pool is changed.
"""

from __future__ import annotations

from collections.abc import Iterable

from tenon.provisioning.static import StaticClaim

PAUSES = (30.0, 60.0, 120.0, 180.0)
"""Seconds after the first, second, ... round that launched nothing; the last for all that follow."""


class Patience:
    """What became of the NodeClaims that were made for one static pool, in one version of its spec."""

    def __init__(self) -> None:
        self.used: set[str] = set()
        """Every name that was given out."""
        self._awaited: set[str] = set()
        self._failed = 0
        self._until = float("-inf")

    def made(self, name: str) -> None:
        """A NodeClaim was written."""
        self.used.add(name)
        self._awaited.add(name)

    def taken_away(self, name: str) -> None:
        """Its end is our own doing and says nothing of EC2."""
        self._awaited.discard(name)

    def seen(self, claims: Iterable[StaticClaim]) -> None:
        """What a picture that may be old shows: only what was launched is certain."""
        launched = {claim.name for claim in claims if claim.launched} & self._awaited
        if launched:
            self._awaited -= launched
            self._failed = 0
            self._until = float("-inf")

    def read(self, claims: Iterable[StaticClaim], now: float) -> None:
        """What the API server just said: an awaited claim that is gone, or leaves without an instance, has failed."""
        present = list(claims)
        self.seen(present)
        standing = {claim.name for claim in present if not claim.leaving}
        if self._awaited - standing:
            self._awaited &= standing
            self._until = now + PAUSES[min(self._failed, len(PAUSES) - 1)]
            self._failed += 1

    def wait(self, now: float) -> float:
        """Seconds until more may be made; 0 when they may."""
        return max(0.0, self._until - now)
