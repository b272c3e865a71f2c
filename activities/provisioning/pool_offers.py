"""What NodePools offer to the pods of a batch, without what EC2 refuses them at the moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime

from activities.cluster_view.interfaces import ClusterView, Types
from activities.provisioning.launch_refusals import LaunchRefusals
from activities.provisioning.offerings import instance_types_by_pool
from activities.provisioning.plan_phases import plan_phase
from activities.provisioning.superseded_claims import RefusedClaims
from activities.tracing.catalogue import Phase
from tenon.apis.nodepool import NodePool
from tenon.ec2.refusals.unavailable import UnavailableOfferings
from tenon.kube.offerings import OfferingKey
from tenon.provisioning.interrupted_offerings import interrupted_offerings
from tenon.provisioning.launch_refusals import OpenBreakers, pools_for_plans, probed, without_held_types
from tenon.provisioning.overlays import Overlaid
from tenon.provisioning.readiness import usable_pools
from tenon.scheduling.model import InstanceType


@dataclass(frozen=True, slots=True)
class PoolOffers:
    """The NodePools that a plan may use, and what EC2 refuses of them."""

    pools: Sequence[NodePool]
    overlaid: Overlaid
    """Their instance types."""
    breakers: OpenBreakers
    """What EC2 refuses of their launches."""
    launching: Set[str]
    """The NodePools with a NodeClaim that has no instance yet, if there are breakers."""
    closed: frozenset[str]
    """The NodePools that are held back and need no probe."""
    refused: RefusedClaims
    """The NodeClaims that EC2 refuses because of their EC2NodeClass."""
    next_attempts: Mapping[OfferingKey, datetime]
    """The offerings that plans avoid, and when a NodeClaim may ask EC2 for each again.

    The instance types leave out exactly these offerings. A refusal that ends while the engine solves still counts for
    the plan. Otherwise a type would be neither on sale nor refused, and a far more expensive one would seem usual.
    """

    @property
    def types_by_pool(self) -> dict[str, Sequence[InstanceType]]:
        """The instance types of each NodePool."""
        return {pool.metadata.name: types for pool, types in self.overlaid.pools_with_types}


async def pool_offers(view: ClusterView, types: Types, refusals: LaunchRefusals, now: datetime) -> PoolOffers:
    """Return what the NodePools offer now. EC2 may be asked for instance types, which takes seconds."""
    usable = usable_pools(view.node_pools(), view.node_class, view)
    breakers = refusals.breakers(usable)
    launching: Set[str] = view.launching_pools() if breakers else frozenset()
    closed = probed(breakers, launching, now)
    refused = refusals.refused_claims(view.launching_claims)
    pools = pools_for_plans(usable, breakers, closed) if breakers else usable
    next_attempts = {**interrupted_offerings(view.all_claims(), now), **refusals.next_attempts()}
    with plan_phase("types", Phase.TYPES):
        overlaid = await instance_types_by_pool(view, types, pools, UnavailableOfferings(next_attempts))
    if breakers:
        overlaid = replace(overlaid, pools_with_types=without_held_types(overlaid.pools_with_types, breakers, closed))
    return PoolOffers(pools, overlaid, breakers, launching, closed, refused, next_attempts)
