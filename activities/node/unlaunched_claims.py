"""Remembers which NodeClaims got no instance until the provisioner's workflow has heard of it, for its page.

The page names the NodeClaims of the last batches. One that EC2 refused would look as if it had been bought.
"""

from __future__ import annotations

from collections.abc import Iterable

from tenon.kube.claim_record import ClaimRecord
from tenon.messages.provisioning import UnlaunchedClaims

MOST = 500
"""How many are remembered while Temporal does not answer. The oldest are forgotten first."""


class UnreportedClaims:
    """The NodeClaims without an instance of which the workflow has not heard yet."""

    def __init__(self) -> None:
        self._ended: dict[str, tuple[int, str]] = {}
        """By name, the batch and the reason."""

    def add(self, claim: ClaimRecord, reason: str) -> bool:
        """Remember a NodeClaim that is deleted without an instance. Return whether the page may name it."""
        if not claim.batch:
            return False
        self._ended[claim.name] = claim.batch, reason
        while len(self._ended) > MOST:
            del self._ended[next(iter(self._ended))]
        return True

    def report(self) -> list[UnlaunchedClaims]:
        """Return all of them, grouped by batch and reason."""
        groups: dict[tuple[int, str], list[str]] = {}
        for name, key in self._ended.items():
            groups.setdefault(key, []).append(name)
        return [
            UnlaunchedClaims(batch=batch, reason=reason, claims=claims) for (batch, reason), claims in groups.items()
        ]

    def acknowledge(self, reported: Iterable[UnlaunchedClaims]) -> None:
        """Forget what the workflow has received."""
        for group in reported:
            for name in group.claims:
                self._ended.pop(name, None)
