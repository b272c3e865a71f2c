"""Which NodeClaims leave because a NodeSchedule has their NodePool off: those that are neither frozen nor kept now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from tenon.apis.disruptionfreeze import DisruptionFreeze
from tenon.apis.nodepool import NodePool
from tenon.disruption.freezes.freeze import freezes_for, frozen_now
from tenon.kube.claim_record import ClaimRecord


@dataclass(frozen=True, slots=True)
class OffPool:
    """The NodeClaims of a NodePool that is off."""

    leaving: Sequence[ClaimRecord]
    """They leave now."""
    next_looks: Sequence[datetime]
    """When others may leave."""


def off_pool(
    pool: NodePool, claims: Iterable[ClaimRecord], freezes: Sequence[DisruptionFreeze], now: datetime
) -> OffPool:
    """Return which NodeClaims of a NodePool that is off leave now, and when others may.

    ``claims``: those that do not leave already. ``freezes``: all DisruptionFreezes of the cluster.
    """
    frozen = frozen_now(freezes_for(freezes, pool.metadata.name, pool.metadata.labels), now)
    if frozen is not None:
        return OffPool((), (frozen.until,))
    leaving: list[ClaimRecord] = []
    next_looks: list[datetime] = []
    for claim in claims:
        if claim.keep_until is not None and now < claim.keep_until:
            next_looks.append(claim.keep_until)
        else:
            leaving.append(claim)
    return OffPool(leaving, next_looks)
