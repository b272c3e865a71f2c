"""A node of a NodePool as its rollout sees it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class PoolNode:
    """A NodeClaim of the NodePool, as the cluster shows it."""

    claim: str
    zone: str
    created: datetime
    revision: str
    """The version that it has; empty if that is not known, which counts as an old one."""
    initialized: bool = True
    leaving: bool = False
    drifted: bool = False
    """Whether it is not as its NodePool and EC2NodeClass describe it, also in what belongs to no version."""
    under_command: bool = False
    """Whether a disruption command prepares to remove it."""
    leaving_since: datetime | None = None
    """When its deletion was requested; None if it was not, or if that is not known."""
    blocked: str = ""
    """Why it cannot leave now, in a clause; empty if nothing is known to keep it."""
    warm: bool = False
    """Whether its NodePool keeps it as a warm node. One that starts for pods is an ordinary node already."""
