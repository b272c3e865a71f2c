"""What the account's Reserved Instances and Savings Plans do for the cluster, for plans and disruption."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from tenon.ec2.commitments.coverage import AccountCommitments, Coverage, coverage_of
from tenon.kube.claim_record import ClaimRecord

MAX_AGE = 1800.0
"""For how many seconds after a read plans use what is left of the commitments. After that, others may have used it."""


class CommitmentStore:
    """Keeps what was last read of the account."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._account: AccountCommitments | None = None
        self._read_at = float("-inf")

    def replace(self, account: AccountCommitments | None) -> None:
        """Set what this cluster may use now. ``account``: None if that cannot be read."""
        self._account, self._read_at = account, self._clock()

    def coverage(self, claims: Iterable[ClaimRecord]) -> Coverage:
        """Return what is covered of the nodes of these NodeClaims, and what is left for new ones."""
        coverage = coverage_of(self._account, claims)
        if self._clock() < self._read_at + MAX_AGE:
            return coverage
        return replace(coverage, remaining=())  # what was bought still covers the nodes that it covers
