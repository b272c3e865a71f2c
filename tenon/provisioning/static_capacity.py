"""Static NodePools: which NodeClaims to create and delete to keep `spec.replicas` nodes.

Names are derived from the pool and an ordinal. The pool stores the next ordinal, which is advanced after the NodeClaims
are written. Decisions based on the same pool therefore give the same names, so a retry creates nothing new, and a name
is never reused after the ordinal has passed it. A claim that is leaving does not count as a replica, but it counts
against `limits.nodes` until it is gone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tenon.apis import labels
from tenon.apis.nodeclaim import DISRUPTION_REASON
from tenon.apis.nodepool import NodePool
from tenon.apis.nodeschedule import why_closed
from tenon.apis.teardown import is_torn_down
from tenon.kube.claim_record import ClaimRecord
from tenon.provisioning.claims import name_after
from tenon.provisioning.readiness import FRESH, Checks, NodeClasses, why_class_unready
from tenon.resources import NODES, parse_resources

MAX_CHANGES = 50
"""The most NodeClaims of a pool to create or delete before the pool, which may have changed, is read again."""

_ORDINAL = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class StaticClaim:
    """The record of a static pool's NodeClaim, with what only its Node and pods say about which claim goes first."""

    record: ClaimRecord
    leaving: bool = False
    """True if the claim or its Node is leaving."""
    empty: bool = True
    cost: float = 0.0
    """The cost of moving its pods if it left."""
    protected: bool = False
    """True if the node, the claim or a pod on it has do-not-disrupt."""

    @property
    def name(self) -> str:
        """The name of the NodeClaim."""
        return self.record.name

    @property
    def launched(self) -> bool:
        """True if it has an instance."""
        return bool(self.record.provider_id)

    @property
    def replaced(self) -> bool:
        """True if a disruption command replaces it: it stays until the command has its replacement."""
        return self.record.is_true(DISRUPTION_REASON)


@dataclass(frozen=True, slots=True)
class ReplicaBalance:
    """How far a static pool is from its replicas."""

    missing: int = 0
    """How many NodeClaims may be created."""
    surplus: int = 0
    held_back: int = 0
    """How many more would be created if `limits.nodes` allowed it."""


@dataclass(frozen=True, slots=True)
class StaticDecision:
    """What brings a static pool closer to its replicas: at most `MAX_CHANGES` NodeClaims."""

    create: tuple[str, ...] = ()
    """Names of NodeClaims."""
    next_ordinal: int = 0
    """The next ordinal to store on the pool after they are written."""
    delete: tuple[StaticClaim, ...] = ()


def balance(pool: NodePool, staying: int, leaving: int, replaced: int = 0) -> ReplicaBalance:
    """Return what the pool lacks or has too much of.

    A pool that is being deleted, or whose cluster is, lacks nothing: its claims go with it. One that a NodeSchedule has
    closed lacks nothing and has no surplus: which of its claims leave depends on freezes too
    (`tenon.disruption.rules.scheduled_off`). A node that a command replaces leaves no gap, because the command buys its
    replacement, and the two together are no surplus (DIS-02).

    Args:
        pool: the static pool.
        staying: how many of its NodeClaims are not leaving.
        leaving: how many are leaving.
        replaced: how many of those that are not leaving a command replaces.
    """
    if pool.spec.replicas is None or pool.metadata.deletion_timestamp is not None:
        return ReplicaBalance()
    if is_torn_down(pool.metadata.annotations) or why_closed(pool.metadata.annotations):
        return ReplicaBalance()
    missing = pool.spec.replicas - staying
    if missing <= 0:
        return ReplicaBalance(surplus=max(0, -missing - replaced))
    limit = parse_resources(pool.spec.limits).get(NODES)
    allowed = missing if limit is None else min(missing, max(0, limit - staying - leaving))
    return ReplicaBalance(missing=allowed, held_back=missing - allowed)


def decide(pool: NodePool, claims: Sequence[StaticClaim], may_make: int = MAX_CHANGES) -> StaticDecision:
    """Decide which NodeClaims to create and delete.

    Args:
        pool: the static pool.
        claims: all NodeClaims of the pool, including those that are leaving.
        may_make: how many may be created now.
    """
    staying = [claim for claim in claims if not claim.leaving]
    kept_claims = [claim for claim in staying if not claim.replaced]
    balanced = balance(pool, len(staying), len(claims) - len(staying), len(staying) - len(kept_claims))
    if balanced.surplus:
        return StaticDecision(
            delete=tuple(sorted(kept_claims, key=_deletion_order)[: min(balanced.surplus, MAX_CHANGES)])
        )
    return _new_names(pool, min(balanced.missing, may_make, MAX_CHANGES), {claim.name for claim in claims})


def next_ordinal(pool: NodePool) -> int:
    """Return the next ordinal of the pool: no NodeClaim is known to use it or a later one."""
    text = pool.metadata.annotations.get(labels.NEXT_ORDINAL, "")
    return int(text) if _ORDINAL.fullmatch(text) else 0


def why_no_new_nodes(pool: NodePool, node_class: NodeClasses, checks: Checks = FRESH) -> str:
    """Say why a static pool gets no new nodes now; empty if it does."""
    if closed := why_closed(pool.metadata.annotations):
        return closed
    unready = why_class_unready(pool, node_class, checks)
    if unready:
        return unready
    faults = checks.pool_faults(pool)
    return str(faults[0]) if faults else ""


def usable_static_pools(pools: Sequence[NodePool], node_class: NodeClasses, checks: Checks = FRESH) -> list[NodePool]:
    """Return the static NodePools that get new nodes now."""
    return [
        pool
        for pool in pools
        if pool.spec.replicas is not None
        and pool.metadata.deletion_timestamp is None
        and not is_torn_down(pool.metadata.annotations)
        and not why_no_new_nodes(pool, node_class, checks)
    ]


def _deletion_order(claim: StaticClaim) -> tuple[bool, bool, bool, float, str, str]:
    """Sort claims without an instance first, then empty nodes, then nodes with a low pod cost.

    Protected ones come last.
    """
    return (
        claim.launched and claim.protected,
        claim.launched,
        not claim.empty,
        claim.cost,
        str(claim.record.metadata.get("creationTimestamp") or ""),  # the older one, because it expires sooner
        claim.name,
    )


def _new_names(pool: NodePool, count: int, taken_names: set[str]) -> StaticDecision:
    names: list[str] = []
    ordinal = next_ordinal(pool)
    while len(names) < count:
        name = static_claim_name(pool, ordinal)
        if name not in taken_names:
            names.append(name)
        ordinal += 1
    return StaticDecision(create=tuple(names), next_ordinal=ordinal)


def static_claim_name(pool: NodePool, ordinal: int) -> str:
    """Return the name of a NodeClaim of a static pool."""
    return name_after(pool.metadata.name, f"{pool.metadata.uid}/{ordinal}")
