"""Static NodePools: which NodeClaims are to be made and which taken away, so that `spec.replicas` nodes stand.

Names follow from the pool and an ordinal. The pool itself bears the next one, which is moved on after the NodeClaims
are written: whoever decides from the same pool decides the same names, so that a repeat makes nothing new, and a name
that was moved past never returns. A claim on its way out is no longer counted, but its place under `limits.nodes` is
not free before it is gone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tenon.apis import labels
from tenon.apis.nodepool import NODES, NodePool
from tenon.apis.validation import check_nodepool
from tenon.provisioning.claims import name_after
from tenon.provisioning.readiness import NodeClasses, why_class_unready
from tenon.resources import parse_resources

MOST_AT_ONCE = 50
"""NodeClaims of one pool that are made or taken away before the pool is read again, which may say otherwise by then."""

_ORDINAL = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class StaticClaim:
    """A NodeClaim of a static pool, and what its node means to others."""

    name: str
    uid: str = ""
    created: str = ""
    """Its creationTimestamp; the older of two equals goes first, for its expiry is nearer."""
    launched: bool = True
    """Whether it has a provider ID."""
    leaving: bool = False
    empty: bool = True
    cost: float = 0.0
    """What its pods would be put to if it left."""
    protected: bool = False
    """Whether node, claim or a pod on it says do-not-disrupt."""


@dataclass(frozen=True, slots=True)
class Balance:
    """How far a static pool is from its replicas."""

    missing: int = 0
    """How many NodeClaims may be made."""
    surplus: int = 0
    held_back: int = 0
    """How many more would be made if `limits.nodes` allowed it."""


@dataclass(frozen=True, slots=True)
class StaticDecision:
    """What brings a static pool nearer to its replicas: `MOST_AT_ONCE` NodeClaims at most."""

    create: tuple[str, ...] = ()
    """Names of NodeClaims."""
    next_ordinal: int = 0
    """What the pool is to bear once they are written."""
    delete: tuple[StaticClaim, ...] = ()


def balance(pool: NodePool, staying: int, leaving: int) -> Balance:
    """What the pool lacks or has too much of; one that is being deleted lacks nothing, its claims go with it.

    Args:
        pool: the static pool.
        staying: how many of its NodeClaims are not on their way out.
        leaving: how many are.
    """
    if pool.spec.replicas is None or pool.metadata.deletion_timestamp is not None:
        return Balance()
    missing = pool.spec.replicas - staying
    if missing <= 0:
        return Balance(surplus=-missing)
    limit = parse_resources(pool.spec.limits).get(NODES)
    allowed = missing if limit is None else min(missing, max(0, limit - staying - leaving))
    return Balance(missing=allowed, held_back=missing - allowed)


def decide(pool: NodePool, claims: Sequence[StaticClaim], may_make: int = MOST_AT_ONCE) -> StaticDecision:
    """The NodeClaims to make and to take away.

    Args:
        pool: the static pool.
        claims: all NodeClaims of the pool, those on their way out included.
        may_make: how many may be made for now.
    """
    staying = [claim for claim in claims if not claim.leaving]
    found = balance(pool, len(staying), len(claims) - len(staying))
    if found.surplus:
        return StaticDecision(delete=tuple(sorted(staying, key=_first_to_go)[: min(found.surplus, MOST_AT_ONCE)]))
    return _new_names(pool, min(found.missing, may_make, MOST_AT_ONCE), {claim.name for claim in claims})


def next_ordinal(pool: NodePool) -> int:
    """The first ordinal that no NodeClaim of the pool was surely named by."""
    text = pool.metadata.annotations.get(labels.NEXT_ORDINAL, "")
    return int(text) if _ORDINAL.fullmatch(text) else 0


def why_none_are_made(pool: NodePool, node_class: NodeClasses) -> str:
    """Why a static pool gets no new nodes for now, in a sentence; empty when it does."""
    unready = why_class_unready(pool, node_class)
    if unready:
        return unready
    faults = check_nodepool(pool)
    return str(faults[0]) if faults else ""


def _first_to_go(claim: StaticClaim) -> tuple[bool, bool, bool, float, str, str]:
    """Claims without an instance, then empty nodes, then those whose pods mind least; protected ones last."""
    return (
        claim.launched and claim.protected,
        claim.launched,
        not claim.empty,
        claim.cost,
        claim.created,
        claim.name,
    )


def _new_names(pool: NodePool, count: int, taken: set[str]) -> StaticDecision:
    names: list[str] = []
    ordinal = next_ordinal(pool)
    while len(names) < count:
        name = static_claim_name(pool, ordinal)
        if name not in taken:
            names.append(name)
        ordinal += 1
    return StaticDecision(create=tuple(names), next_ordinal=ordinal)


def static_claim_name(pool: NodePool, ordinal: int) -> str:
    """The name of one NodeClaim of a static pool."""
    return name_after(pool.metadata.name, f"{pool.metadata.uid}/{ordinal}")
