"""What planning needs to know of a cluster in addition to the problem: its NodeClaims, and whether anything changed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Values that change when a pod that did not fit anywhere might fit now."""

    supply: object
    """Covers existing capacity and what can be bought."""
    namespaces: object
    """Covers the labels of namespaces, which matter for pods with a namespaceSelector."""


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """What the planner needs to know about a NodeClaim: whether it still covers the pods that it was bought for.

    Batching checks this for each pending pod, so it has three values and not the whole claim.
    """

    name: str
    leaving: bool
    initialized_at: datetime | None
