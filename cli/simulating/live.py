"""Reads the objects of a live cluster once, without changing them."""

from __future__ import annotations

import asyncio
from typing import Any

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ConfigError, NotFoundError
from activities.kubernetes.resources import (
    CAPACITYBUFFERS,
    CONTROLLERREVISIONS,
    CSIDRIVERS,
    CSINODES,
    DAEMONSETS,
    DEPLOYMENTS,
    DISRUPTIONFREEZES,
    EC2NODECLASSES,
    LIMITRANGES,
    NAMESPACES,
    NODECLAIMS,
    NODEOVERLAYS,
    NODEPOOLS,
    NODEREPAIRPOLICIES,
    NODEROLLOUTS,
    NODES,
    NODESCHEDULES,
    PDBS,
    PODS,
    PODTEMPLATES,
    PVCS,
    PVS,
    REPLICASETS,
    REPLICATIONCONTROLLERS,
    SERVICES,
    STATEFULSETS,
    STORAGECLASSES,
    Resource,
)
from cli.connection import OF_EVERY_CLUSTER, connected, not_kubernetes
from tenon.apis import labels
from tenon.manifests.faults import ManifestError, Source
from tenon.provisioning.gates import FeatureGates
from tenon.simulation.objects import Objects, SourcedObject

RUNTIMECLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", False, "RuntimeClass")
PRIORITYCLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", False, "PriorityClass")
READ = (
    *(NODEPOOLS, EC2NODECLASSES, NODECLAIMS, NODES, PODS, DAEMONSETS, NAMESPACES, PRIORITYCLASSES),
    *(PDBS, PVS, PVCS, STORAGECLASSES, CSINODES, CSIDRIVERS, LIMITRANGES, RUNTIMECLASSES),
)
"""Resources to read. Workloads are excluded because the cluster already has their pods."""
FOLLOWED = {resource.kind: resource for resource in (DEPLOYMENTS, REPLICASETS, STATEFULSETS)}


def add_live_objects(objects: Objects, gates: FeatureGates, *, with_selectors: bool = False) -> list[ManifestError]:
    """Add the cluster's objects to those from files, and return the faults. Objects from files take precedence.

    Args:
        objects: the objects from files.
        gates: the feature gates, which decide which kinds are read, as for a worker.
        with_selectors: whether to read Services and workloads for their selectors.
    """
    try:
        return asyncio.run(_read(objects, gates, with_selectors))
    except (ConfigError, ApiError) as error:
        return [ManifestError(Source("the cluster"), f"cannot be read: {error}")]


async def _read(objects: Objects, gates: FeatureGates, with_selectors: bool) -> list[ManifestError]:
    kube = await connected()
    gated = [SERVICES] if with_selectors else []
    gated += [NODEOVERLAYS] if gates.node_overlay else []
    gated += [NODEREPAIRPOLICIES] if gates.node_repair else []
    gated += [CAPACITYBUFFERS, PODTEMPLATES] if gates.capacity_buffer else []
    try:
        for resource in (*READ, DISRUPTIONFREEZES, NODESCHEDULES, *gated):
            try:
                objects_ = await kube.list(resource)
            except NotFoundError:
                if resource.plural in OF_EVERY_CLUSTER:
                    return [ManifestError(Source("the cluster"), not_kubernetes(kube.host, resource.plural))]
                objects.note(f"the cluster has no {resource.plural}")
                continue
            for body in objects_:
                objects.add(body, Source(f"cluster {kube.host}"), yields=True)
        await _add_versions(kube, objects)
        for resource in (REPLICASETS, REPLICATIONCONTROLLERS, STATEFULSETS) if with_selectors else ():
            for body in await kube.list(resource):
                _followed(objects, kube, resource, body)
        if gates.capacity_buffer:
            await _follow(kube, objects)
    finally:
        await kube.close()
    return []


async def _add_versions(kube: Kube, objects: Objects) -> None:
    """Read the NodeRollouts, and the versions of NodePools if there are any."""
    try:
        rollouts = await kube.list(NODEROLLOUTS)
    except NotFoundError:
        return
    revisions = await kube.list(CONTROLLERREVISIONS, label_selector=labels.NODEPOOL) if rollouts else []
    for body in (*rollouts, *revisions):
        objects.add(body, Source(f"cluster {kube.host}"), yields=True)


async def _follow(kube: Kube, objects: Objects) -> None:
    """Read only the workloads that buffers refer to."""
    for buffer in list(objects.of("CapacityBuffer")):
        reference = (buffer.body.get("spec") or {}).get("scalableRef") or {}
        resource = FOLLOWED.get(str(reference.get("kind")))
        target = await kube.get(resource, str(reference.get("name")), buffer.namespace) if resource else None
        if resource is not None and target is not None:
            _followed(objects, kube, resource, target)


def _followed(objects: Objects, kube: Kube, resource: Resource, body: dict[str, Any]) -> None:
    item = SourcedObject(resource.kind, {**body, "kind": resource.kind}, Source(f"cluster {kube.host}"))
    objects.followed[resource.kind, item.key] = item
