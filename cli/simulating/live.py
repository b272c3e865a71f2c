"""The objects of a live cluster, read once and never changed."""

from __future__ import annotations

import asyncio

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ConfigError, NotFound
from activities.kubernetes.resources import (
    CSINODES,
    DAEMONSETS,
    EC2NODECLASSES,
    NAMESPACES,
    NODECLAIMS,
    NODEPOOLS,
    NODES,
    PDBS,
    PODS,
    PVCS,
    PVS,
    STORAGECLASSES,
    Resource,
)
from tenon.simulation.faults import Fault, Source
from tenon.simulation.objects import Objects

PRIORITYCLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", False, "PriorityClass")
READ = (
    *(NODEPOOLS, EC2NODECLASSES, NODECLAIMS, NODES, PODS, DAEMONSETS, NAMESPACES, PRIORITYCLASSES),
    *(PDBS, PVS, PVCS, STORAGECLASSES, CSINODES),
)
"""Workloads are left out: their pods are in the cluster already."""


def add_live_objects(objects: Objects) -> list[Fault]:
    """Add the cluster's objects to those of files, which win where both have one; what went wrong."""
    try:
        return asyncio.run(_read(objects))
    except ConfigError as error:
        return [Fault(Source("--live"), f"no cluster is configured: {error}")]
    except ApiError as error:
        return [Fault(Source("--live"), str(error))]


async def _read(objects: Objects) -> list[Fault]:
    kube = await Kube.connect()
    try:
        for resource in READ:
            try:
                found = await kube.list(resource)
            except NotFound:
                objects.note(f"the cluster has no {resource.plural}")
                continue
            for body in found:
                objects.add(body, Source(f"cluster {kube.host}"), yields=True)
    finally:
        await kube.close()
    return []
