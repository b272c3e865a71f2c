"""What the account's Reserved Instances and Savings Plans do for the cluster, for plans and disruption."""

from __future__ import annotations

from collections.abc import Iterable

from tenon.ec2.commitments.coverage import AccountCommitments, Coverage, coverage_of
from tenon.kube.claim_record import ClaimRecord


class CommitmentStore:
    """Keeps what was last read of the account."""

    def __init__(self) -> None:
        self._account: AccountCommitments | None = None

    def replace(self, account: AccountCommitments | None) -> None:
        """Set what this cluster may use. ``account``: None if that cannot be read."""
        self._account = account

    def coverage(self, claims: Iterable[ClaimRecord]) -> Coverage:
        """Return what is covered of the nodes of these NodeClaims, and what is left for new ones."""
        return coverage_of(self._account, claims)
