"""Which instance profiles that were created for an EC2NodeClass nothing uses any more."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tenon.apis import labels
from tenon.kube.claim_record import ClaimRecord


def unused_profiles(earlier: Collection[str], claims: Iterable[ClaimRecord], recorded: Collection[str]) -> list[str]:
    """Return the profiles of a class's earlier roles that no instance has and none can get, sorted.

    An instance without its profile loses its rights. A NodeClaim that does not name its profile may still be launched
    with any of them, so nothing is unused then.

    Args:
        earlier: the profiles that were created for the class, without the one that it uses now.
        claims: all NodeClaims of the class. One exists until its instance is gone.
        recorded: the profiles in the recorded versions of NodePools. A rollout or a way back launches with them.
    """
    used = {claim.annotations.get(labels.INSTANCE_PROFILE, "") for claim in claims}
    return [] if "" in used else sorted(set(earlier) - used - set(recorded))
