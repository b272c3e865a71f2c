"""The instance types of a NodeClaim that was planned with NodeOverlays, at its launch.

Only a claim that bears the trace of an overlay needs this: what a plan believed of prices and capacity must be believed
once more when EC2 is asked, or the claim would ask for resources that no type has. Which overlays hold is decided over
all NodePools, so all are read. Whatever changed since the plan counts: a claim that nothing fits any more is let go,
and its pods are planned again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from activities.ec2.provider import Ec2Provider
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import NotFound
from activities.kubernetes.resources import EC2NODECLASSES, NODEOVERLAYS, NODEPOOLS, Resource
from tenon.apis import labels
from tenon.apis.base import ApiModel
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodeoverlay import NodeOverlay
from tenon.apis.nodepool import NodePool
from tenon.apis.validation import parse
from tenon.ec2.own_kubelet import with_own_kubelet
from tenon.provisioning.overlays import overlaid
from tenon.provisioning.readiness import usable_pools, why_class_unready
from tenon.scheduling.model import InstanceType

Model = TypeVar("Model", bound=ApiModel)
TRACES = (labels.PRICE_OVERLAY_APPLIED, labels.CAPACITY_OVERLAY_APPLIED)


def bears_trace(claim: Mapping[str, Any]) -> bool:
    """Whether a raw NodeClaim was planned with NodeOverlays."""
    annotations = claim["metadata"].get("annotations") or {}
    return any(annotations.get(trace) == "true" for trace in TRACES)


async def types_for(
    kube: Kube, ec2: Ec2Provider, claim: Mapping[str, Any], node_class: EC2NodeClass
) -> Sequence[InstanceType]:
    """The types of a claim's class, as the overlays of now want them seen for the claim's NodePool."""
    if not bears_trace(claim):
        return await asyncio.to_thread(ec2.instance_types, node_class)
    overlays = [
        overlay
        for overlay, faults in await _read(kube, NODEOVERLAYS, NodeOverlay)
        if not faults and overlay.metadata.deletion_timestamp is None
    ]
    classes = {found.metadata.name: found for found, _ in await _read(kube, EC2NODECLASSES, EC2NodeClass)}
    pools = [pool for pool, _ in await _read(kube, NODEPOOLS, NodePool)]
    usable = usable_pools(pools, classes.get)
    wanted = (claim["metadata"].get("labels") or {}).get(labels.NODEPOOL, "")
    own = [pool for pool in pools if pool.metadata.name == wanted and not why_class_unready(pool, classes.get)]
    return await asyncio.to_thread(
        _seen, ec2, overlays, [*own, *(pool for pool in usable if pool not in own)], classes, wanted, node_class
    )


def _seen(
    ec2: Ec2Provider,
    overlays: Sequence[NodeOverlay],
    pools: Sequence[NodePool],
    classes: Mapping[str, EC2NodeClass],
    wanted: str,
    node_class: EC2NodeClass,
) -> Sequence[InstanceType]:
    sold = []
    for pool in pools:
        own = with_own_kubelet(classes[pool.spec.template.spec.node_class_ref.name], pool.metadata.annotations)
        sold.append((pool, ec2.instance_types(own, unpriced=True)))
    for pool, types in overlaid(sold, overlays).sold:
        if pool.metadata.name == wanted:
            return types
    return ec2.instance_types(node_class)  # its pool is gone


async def _read(kube: Kube, resource: Resource, model: type[Model]) -> list[tuple[Model, bool]]:
    """The objects that can be read, each with whether anything is wrong with it; none where the kind is no more."""
    try:
        listed = await kube.list(resource)
    except NotFound:
        listed = []
    parsed = [parse(model, raw) for raw in listed]
    return [(found, bool(faults)) for found, faults in parsed if found is not None]
