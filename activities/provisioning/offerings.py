"""The instance types and offerings of each NodePool with NodeOverlays applied. All callers get the same result."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace

from activities.cluster_view.interfaces import ClusterView, Types
from activities.ec2.errors import EC2Error
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodepool import NodePool
from tenon.ec2.families.own_kubelet import with_own_kubelet
from tenon.ec2.types.capacity_reservations import reservation_ids, without_taken
from tenon.kube.offerings import OfferingKey
from tenon.provisioning.overlays import Overlaid, PoolTypes, apply_overlays
from tenon.provisioning.pools import is_dedicated
from tenon.provisioning.readiness import usable_pools
from tenon.provisioning.static_capacity import usable_static_pools
from tenon.rollout.revisions import class_key
from tenon.scheduling.model import InstanceType

Unavailable = frozenset[OfferingKey]
"""Offerings that EC2 refused recently."""


async def instance_types_by_pool(
    view: ClusterView, types: Types, pools: Sequence[NodePool], unavailable: Unavailable = frozenset()
) -> Overlaid:
    """Each pool with its instance types. The EC2NodeClass of each pool must exist and be ready.

    A NodeOverlay is refused for all of them if it conflicts with another in any NodePool that gets new nodes, whichever
    pools are asked for. A launch refuses it too (`activities.node.overlays`).

    Raises:
        EC2Error: the types of a pool that is asked for cannot be read. Other pools with such types do not count.
    """
    overlays = view.overlays()
    if not overlays:
        return Overlaid(await _types_of(view, types, pools, unavailable), {})
    names = {pool.metadata.name for pool in pools}
    other_pools = [pool for pool in view.node_pools() if pool.metadata.name not in names]
    usable = usable_pools(other_pools, view.node_class, view)
    usable_static = usable_static_pools(other_pools, view.node_class, view)
    pools_with_types = await _types_of(
        view, types, pools, unavailable, optional=[*usable, *usable_static], unpriced=True
    )
    overlaid = await asyncio.to_thread(apply_overlays, pools_with_types, overlays)
    return replace(overlaid, pools_with_types=overlaid.pools_with_types[: len(pools)])


async def _types_of(
    view: ClusterView,
    types: Types,
    pools: Sequence[NodePool],
    unavailable: Unavailable,
    *,
    optional: Sequence[NodePool] = (),
    unpriced: bool = False,
) -> PoolTypes:
    """The types without overlays. A place in a capacity reservation that a NodeClaim takes counts as used before EC2
    counts it.

    Args:
        view: the cluster.
        types: reads the types of a class.
        pools: come first in the result.
        unavailable: offerings that EC2 refused recently.
        optional: further pools, which are left out if their types cannot be read.
        unpriced: whether types without a price count too.
    """
    claims = view.reserved_claims()
    # All of them before the first read, which takes seconds, in which a class may go.
    node_classes = {key: view.node_class(key) for key in map(class_key, (*pools, *optional))}

    def read(node_class: EC2NodeClass, dedicated: bool) -> Sequence[InstanceType]:
        instance_types = types.instance_types(node_class, unavailable, unpriced=unpriced, dedicated=dedicated)
        return without_taken(instance_types, claims) if reservation_ids(instance_types) else instance_types

    shared: dict[tuple[int, bool], Sequence[InstanceType]] = {}

    async def types_of(pool: NodePool) -> Sequence[InstanceType]:
        node_class = node_classes[class_key(pool)]
        assert node_class is not None  # the caller has checked it
        own = with_own_kubelet(node_class, pool.metadata.annotations)
        dedicated = is_dedicated(pool)
        if own is not node_class:
            return await asyncio.to_thread(read, own, dedicated)
        key = (id(own), dedicated)
        if key not in shared:  # the pools of a class share one list, so that overlays are matched against it once
            shared[key] = await asyncio.to_thread(read, own, dedicated)
        return shared[key]

    pools_with_types = [(pool, await types_of(pool)) for pool in pools]
    for pool in optional:
        with contextlib.suppress(EC2Error):
            pools_with_types.append((pool, await types_of(pool)))
    return pools_with_types
