"""What planning must know of a cluster beside the problem itself: its NodeClaims, and whether anything is new."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Values that differ when a pod which fitted nowhere might fit now."""

    supply: object
    """Of what is there and can be bought."""
    namespaces: object
    """Of namespaces' labels, which bear on pods with a namespaceSelector."""


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """What the planner asks about a NodeClaim: whether it still answers for the pods that it was bought for.

    Batching judges each pending pod by it, so it holds three values and not the claim.
    """

    name: str
    leaving: bool
    initialized_at: datetime | None
