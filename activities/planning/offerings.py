"""The instance types and offerings of each NodePool with NodeOverlays applied. All callers get the same result."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from activities.planning.interfaces import ClusterView, Types
from tenon.apis.nodepool import NodePool
from tenon.ec2.own_kubelet import with_own_kubelet
from tenon.kube.offerings import OfferingKey
from tenon.provisioning.overlays import Overlaid, apply_overlays
from tenon.scheduling.model import InstanceType

Refused = frozenset[OfferingKey]
"""Offerings that EC2 refused recently."""


async def instance_types_by_pool(
    view: ClusterView, types: Types, pools: Sequence[NodePool], refused: Refused = frozenset()
) -> Overlaid:
    """Each pool with its instance types. The EC2NodeClass of each pool must exist and be ready."""
    overlays = view.overlays()
    read = partial(types.instance_types, unpriced=True) if overlays else types.instance_types
    sold: list[tuple[NodePool, Sequence[InstanceType]]] = []
    shared: dict[int, Sequence[InstanceType]] = {}
    classes = [view.node_class(pool.spec.template.spec.node_class_ref.name) for pool in pools]
    for pool, node_class in zip(pools, classes, strict=True):
        assert node_class is not None  # the caller has checked it
        own = with_own_kubelet(node_class, pool.metadata.annotations)
        if own is not node_class:
            sold.append((pool, await asyncio.to_thread(read, own, refused)))
            continue
        if id(own) not in shared:  # the pools of a class share one list, so that overlays are matched against it once
            shared[id(own)] = await asyncio.to_thread(read, own, refused)
        sold.append((pool, shared[id(own)]))
    return await asyncio.to_thread(apply_overlays, sold, overlays) if overlays else Overlaid(sold, {})
