"""Looks at a cluster as `tenon.migration.switch` needs it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from activities.clock import utc_now
from activities.kubernetes.client import Kube
from activities.kubernetes.resources import CRDS, NODECLAIMS, NODEPOOLS, NODES, Resource
from cli.switching.deployments import Workload, replicas_of
from cli.switching.leases import Holder, LeaseWatch
from cli.switching.memory import Memory
from tenon.apis import labels
from tenon.apis.json_object import JsonObject
from tenon.migration import node_states
from tenon.migration.switch import ControllerDeployment, Direction, SwitchObservation, SwitchPhase


@dataclass(slots=True)
class Watcher:
    """Looks at both controllers and at the nodes."""

    kube: Kube
    karpenter: Workload
    tenon: Workload
    leases: LeaseWatch
    one_lease: bool = False
    """The Leases of both are in one namespace, so they are the same."""

    async def observe(self, memory: Memory) -> SwitchObservation:
        """Look at what the phase of the switch needs."""
        switch = memory.switch
        holders = await self.leases.holders()
        karpenter = await self._controller(self.karpenter, [holder for holder in holders if not holder.is_tenon])
        tenon = await self._controller(self.tenon, [holder for holder in holders if holder.is_tenon])
        is_takeover = switch.direction is Direction.TAKEOVER
        leaver, successor = (karpenter, tenon) if is_takeover else (tenon, karpenter)
        unsettled: list[str] = []
        behind: list[str] = []
        if switch.phase is SwitchPhase.BEGUN:
            nodes = await self.kube.list(NODES, label_selector=labels.NODEPOOL)
            unsettled = node_states.unsettled(await self.claims(), nodes)
        elif switch.phase is SwitchPhase.STARTING and is_takeover and successor.renews_lease:
            pools, claims = await asyncio.gather(self.pools(), self.claims())
            behind = node_states.behind(pools, claims, memory.unready)
        return SwitchObservation(utc_now(), leaver, successor, unsettled, behind, self.one_lease)

    async def claims(self) -> list[JsonObject]:
        """All NodeClaims, in the version that the API server stores."""
        return await self.kube.list(await served(self.kube, NODECLAIMS))

    async def pools(self) -> list[JsonObject]:
        """All NodePools, in the version that the API server stores."""
        return await self.kube.list(await served(self.kube, NODEPOOLS))

    async def _controller(self, workload: Workload, holders: list[Holder]) -> ControllerDeployment:
        deployment = await workload.read(self.kube)
        pods = await workload.pods(self.kube, deployment)
        if workload is self.karpenter:  # another controller's Lease in another namespace is not Karpenter's
            identities = [str(pod["metadata"]["name"]) for pod in pods]
            holders = [
                holder
                for holder in holders
                if holder.namespace == workload.namespace
                or any(holder.identity.startswith(name) for name in identities)
            ]
        return ControllerDeployment(
            name=workload.title,
            replicas=replicas_of(deployment),
            pods=len(pods),
            available=int((deployment.get("status") or {}).get("availableReplicas") or 0),
            holds_lease=bool(holders),
            renews_lease=any(holder.renews for holder in holders),
        )


async def served(kube: Kube, resource: Resource) -> Resource:
    """Return the resource in v1, or in v1beta1 if objects are stored so: then no one may be there to convert them."""
    definition = await kube.get(CRDS, f"{resource.plural}.{resource.group}")
    versions = definition["spec"]["versions"] if definition is not None else []
    if any(version["name"] == "v1beta1" and version["storage"] for version in versions):
        return Resource(resource.group, "v1beta1", resource.plural, resource.namespaced, resource.kind)
    return resource
