"""Applies NodeOverlays to the instance types of a NodeClaim when it is launched.

Only a claim with an overlay annotation needs this. The launch must use the same prices and capacity as the plan, or the
claim would request resources that no instance type has. Which overlays apply depends on all NodePools, so this module
reads all of them. It uses the current objects, not those of the plan: if no type fits the claim any more, the claim is
deleted and its pods are planned again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence, Set
from typing import Any, TypeVar

from activities.ec2.provider import Ec2Provider
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import NotFoundError
from activities.kubernetes.resources import EC2NODECLASSES, NODEOVERLAYS, NODEPOOLS, Resource
from tenon.apis import labels
from tenon.apis.base import ApiModel
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.json_object import JsonObject
from tenon.apis.nodeoverlay import NodeOverlay
from tenon.apis.nodepool import NodePool
from tenon.apis.validation import parse
from tenon.ec2.families.own_kubelet import with_own_kubelet
from tenon.ec2.launch.launched_labels import tenancy
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.requirements import Requirements
from tenon.provisioning.overlays import apply_overlays
from tenon.provisioning.pools import is_dedicated
from tenon.provisioning.readiness import usable_pools, why_class_unready
from tenon.provisioning.static_capacity import usable_static_pools
from tenon.scheduling.model import InstanceType

Model = TypeVar("Model", bound=ApiModel)
SeenTypes = dict[str, Sequence[InstanceType]]
"""NodePool name to its instance types."""
OVERLAY_ANNOTATIONS = (labels.PRICE_OVERLAY_APPLIED, labels.CAPACITY_OVERLAY_APPLIED)


def has_overlay_annotation(claim: ClaimRecord) -> bool:
    """Whether a NodeClaim has an annotation that says it was planned with NodeOverlays."""
    return any(claim.annotations.get(trace) == "true" for trace in OVERLAY_ANNOTATIONS)


class OverlaidTypes:
    """Returns instance types to launches. A burst of launches reads the cluster at most twice.

    Launches that ask while one answer is being computed share the next one. An answer is never older than its request,
    so a launch sees everything that the plan before it saw.
    """

    def __init__(self, kube: Kube, ec2: Ec2Provider) -> None:
        self._kube = kube
        self._ec2 = ec2
        self._turn = asyncio.Lock()
        self._gathering: tuple[set[str], asyncio.Task[SeenTypes]] | None = None
        self._parsed: dict[tuple[str, str], tuple[str, Any]] = {}

    async def of(self, claim: ClaimRecord, node_class: EC2NodeClass) -> Sequence[InstanceType]:
        """The types of a claim's class, with the current overlays for the claim's NodePool applied."""
        seen_types = None
        if has_overlay_annotation(claim):
            if self._gathering is None:
                pool_names: set[str] = set()
                self._gathering = pool_names, asyncio.create_task(self._answer(pool_names), name="types with overlays")
            pool_names, answer = self._gathering
            pool_names.add(claim.pool)
            seen_types = (await asyncio.shield(answer)).get(claim.pool)
        # If the claim has no overlay annotation, or its pool is gone, use the types as EC2 describes them.
        if seen_types is not None:
            return seen_types
        requirements = Requirements.from_terms(claim.spec.get("requirements") or ())
        dedicated = tenancy(requirements) == labels.DEDICATED
        return await asyncio.to_thread(self._ec2.instance_types, node_class, dedicated=dedicated)

    async def _answer(self, pool_names: Set[str]) -> SeenTypes:
        async with self._turn:
            self._gathering = None  # later requests need a newer answer than the one that is read from here on
            raw_lists = [await self._listed(resource) for resource in (NODEOVERLAYS, NODEPOOLS, EC2NODECLASSES)]
            return await asyncio.to_thread(self._seen, pool_names, *raw_lists)

    async def _listed(self, resource: Resource) -> list[JsonObject]:
        """All objects of the resource; empty if the API server does not serve it."""
        try:
            return await self._kube.list(resource)
        except NotFoundError:
            return []

    def _seen(
        self,
        pool_names: Set[str],
        raw_overlays: list[JsonObject],
        raw_pools: list[JsonObject],
        raw_classes: list[JsonObject],
    ) -> SeenTypes:
        before, self._parsed = self._parsed, {}
        overlays = [
            overlay
            for overlay, faulty in self._read(before, raw_overlays, NodeOverlay)
            if not faulty and overlay.metadata.deletion_timestamp is None
        ]
        pools = [pool for pool, _ in self._read(before, raw_pools, NodePool)]
        classes = {parsed.metadata.name: parsed for parsed, _ in self._read(before, raw_classes, EC2NodeClass)}
        usable = [*usable_pools(pools, classes.get), *usable_static_pools(pools, classes.get)]
        names = {pool.metadata.name for pool in usable}
        overlaid = self._overlaid(usable, classes, overlays) if names & pool_names else {}
        for pool in pools:  # those that are being deleted, or are closed, although nodes of theirs are still launched
            name = pool.metadata.name
            if name in pool_names - names and not why_class_unready(pool, classes.get):
                overlaid[name] = self._overlaid([pool, *usable], classes, overlays)[name]
        return overlaid

    def _overlaid(
        self, pools: Sequence[NodePool], classes: Mapping[str, EC2NodeClass], overlays: Sequence[NodeOverlay]
    ) -> SeenTypes:
        pools_with_types = []
        for pool in pools:
            own = with_own_kubelet(classes[pool.spec.template.spec.node_class_ref.name], pool.metadata.annotations)
            pools_with_types.append((pool, self._ec2.instance_types(own, unpriced=True, dedicated=is_dedicated(pool))))
        return {
            pool.metadata.name: types for pool, types in apply_overlays(pools_with_types, overlays).pools_with_types
        }

    def _read(
        self, before: Mapping[tuple[str, str], tuple[str, Any]], listed: Sequence[JsonObject], model: type[Model]
    ) -> list[tuple[Model, bool]]:
        """Parse the objects and return those that can be read, each with whether it has faults.

        Unchanged objects are taken from ``before``.
        """
        read_objects = []
        for raw in listed:
            metadata = raw["metadata"]
            place, version = (model.__name__, metadata["name"]), f"{metadata['uid']} {metadata['resourceVersion']}"
            cached = before.get(place)
            if cached is None or cached[0] != version:
                parsed, faults = parse(model, raw)
                cached = version, (parsed, bool(faults))
            self._parsed[place] = cached
            read, faulty = cached[1]
            if read is not None:
                read_objects.append((read, faulty))
        return read_objects
