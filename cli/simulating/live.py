"""The objects of a live cluster, read once and never changed."""

from __future__ import annotations

import asyncio

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ConfigError, NotFound
from activities.kubernetes.resources import (
    CAPACITYBUFFERS,
    CSINODES,
    DAEMONSETS,
    DEPLOYMENTS,
    EC2NODECLASSES,
    NAMESPACES,
    NODECLAIMS,
    NODEOVERLAYS,
    NODEPOOLS,
    NODES,
    PDBS,
    PODS,
    PODTEMPLATES,
    PVCS,
    PVS,
    REPLICASETS,
    STATEFULSETS,
    STORAGECLASSES,
    Resource,
)
from tenon.provisioning.gates import FeatureGates
from tenon.simulation.faults import Fault, Source
from tenon.simulation.objects import Found, Objects

PRIORITYCLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", False, "PriorityClass")
READ = (
    *(NODEPOOLS, EC2NODECLASSES, NODECLAIMS, NODES, PODS, DAEMONSETS, NAMESPACES, PRIORITYCLASSES),
    *(PDBS, PVS, PVCS, STORAGECLASSES, CSINODES),
)
"""Workloads are left out: their pods are in the cluster already."""
FOLLOWED = {resource.kind: resource for resource in (DEPLOYMENTS, REPLICASETS, STATEFULSETS)}


def add_live_objects(objects: Objects, gates: FeatureGates) -> list[Fault]:
    """Add the cluster's objects to those of files, which win where both have one; what went wrong.

    ``gates`` say what counts there, as they do for a worker.
    """
    try:
        return asyncio.run(_read(objects, gates))
    except ConfigError as error:
        return [Fault(Source("--live"), f"no cluster is configured: {error}")]
    except ApiError as error:
        return [Fault(Source("--live"), str(error))]


async def _read(objects: Objects, gates: FeatureGates) -> list[Fault]:
    kube = await Kube.connect()
    gated = [NODEOVERLAYS] if gates.node_overlay else []
    gated += [CAPACITYBUFFERS, PODTEMPLATES] if gates.capacity_buffer else []
    try:
        for resource in (*READ, *gated):
            try:
                found = await kube.list(resource)
            except NotFound:
                objects.note(f"the cluster has no {resource.plural}")
                continue
            for body in found:
                objects.add(body, Source(f"cluster {kube.host}"), yields=True)
        if gates.capacity_buffer:
            await _follow(kube, objects)
    finally:
        await kube.close()
    return []


async def _follow(kube: Kube, objects: Objects) -> None:
    """Read the workloads that buffers refer to, and no others."""
    for buffer in list(objects.of("CapacityBuffer")):
        wanted = (buffer.body.get("spec") or {}).get("scalableRef") or {}
        resource = FOLLOWED.get(str(wanted.get("kind")))
        found = await kube.get(resource, str(wanted.get("name")), buffer.namespace) if resource else None
        if resource is not None and found is not None:
            body = {**found, "kind": resource.kind}
            objects.followed[resource.kind, f"{buffer.namespace}/{wanted['name']}"] = Found(
                resource.kind, body, Source(f"cluster {kube.host}")
            )
