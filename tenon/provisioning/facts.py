"""What planning must know of NodeClaims that exist."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """A NodeClaim: whether it still answers for the pods that it was bought for (``planned``, their UIDs)."""

    name: str
    leaving: bool
    initialized_at: datetime | None
    planned: frozenset[str]
