"""Static NodePools: which NodeClaims are to be made and which taken away, so that `spec.replicas` nodes stand.

Names follow from the pool, the version of its spec and an ordinal that no claim of the pool has: whoever decides twice
from the same list decides the same names, so that a repeat makes nothing new. A claim on its way out is no longer
counted, but its name and its place under `limits.nodes` are not free before it is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tenon.apis.nodepool import NODES, NodePool
from tenon.apis.validation import check_nodepool
from tenon.provisioning.claims import name_after
from tenon.provisioning.readiness import NodeClasses, why_class_unready
from tenon.resources import parse_resources


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
class StaticDecision:
    """What brings a static pool to its replicas."""

    create: tuple[str, ...] = ()
    """Names of NodeClaims."""
    delete: tuple[StaticClaim, ...] = ()
    held_back: int = 0
    """How many more would be made if `limits.nodes` allowed it."""


def decide(pool: NodePool, claims: Sequence[StaticClaim], used: Collection[str] = ()) -> StaticDecision:
    """The NodeClaims to make and to take away.

    Args:
        pool: the static pool; one that is being deleted makes and takes away nothing, its claims go with it.
        claims: all NodeClaims of the pool, those on their way out included.
        used: names that were given out before; none of them is given out again.
    """
    if pool.spec.replicas is None or pool.metadata.deletion_timestamp is not None:
        return StaticDecision()
    staying = [claim for claim in claims if not claim.leaving]
    missing = pool.spec.replicas - len(staying)
    if missing <= 0:
        return StaticDecision(delete=tuple(sorted(staying, key=_first_to_go)[:-missing] if missing else ()))
    limit = parse_resources(pool.spec.limits).get(NODES)
    allowed = missing if limit is None else min(missing, max(0, limit - len(claims)))
    taken = {claim.name for claim in claims} | set(used)
    return StaticDecision(create=_free_names(pool, allowed, taken), held_back=missing - allowed)


def why_none_are_made(pool: NodePool, node_class: NodeClasses) -> str:
    """Why a static pool gets no new nodes for now, in a sentence; empty when it does."""
    if pool.metadata.deletion_timestamp is not None:
        return "it is being deleted"
    faults = check_nodepool(pool)
    return str(faults[0]) if faults else why_class_unready(pool, node_class)


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


def _free_names(pool: NodePool, count: int, taken: set[str]) -> tuple[str, ...]:
    names: list[str] = []
    ordinal = 0
    while len(names) < count:
        name = static_claim_name(pool, ordinal)
        if name not in taken:
            names.append(name)
            taken.add(name)
        ordinal += 1
    return tuple(names)


def static_claim_name(pool: NodePool, ordinal: int) -> str:
    """The name of one NodeClaim of a static pool: another for each version of the pool's spec."""
    origin = f"{pool.metadata.uid}/{pool.metadata.generation}/{ordinal}"
    return name_after(pool.metadata.name, origin)
