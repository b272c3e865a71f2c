"""The cluster cache: one reflector for each resource, and the queries that planning and disruption make."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from activities import loggers
from activities.kubernetes import resources
from tenon.apis import labels
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.decode import decode_generation, decode_namespaced, decode_node, decode_nodeclaim, decode_object
from tenon.kube.limit_ranges import decode_limit_range
from tenon.kube.pod import Pod
from tenon.kube.pod_decode import decode_daemonset, decode_pod
from tenon.kube.pod_disruption_budgets import decode_pdb
from tenon.kube.scheduler_config import NOTHING, DefaultSpread
from tenon.kube.selector_decode import decode_replication_controller, decode_service, decode_workload
from tenon.kube.storage_decode import (
    decode_class,
    decode_csi_driver,
    decode_csi_node,
    decode_namespace,
    decode_pvc,
    decode_volume,
)
from tenon.kube.vertical_pod_autoscalers import decode_pod_with_containers, decode_vpa
from tenon.provisioning.gates import FeatureGates
from tenon.resources import Resources
from tenon.scheduling.model import Node
from worker.cache import capacity
from worker.cache.changes import Topic
from worker.cache.node_versions import decode_revision
from worker.cache.planned_places import awaits_pods
from worker.cache.reflector import SILENCE_SECONDS, Reflector, Scope
from worker.cache.served import RECHECK_SECONDS, served
from worker.cache.state import ClusterState
from worker.cache.table import Table
from worker.cache.usage import pool_usages
from worker.log_rate_limit import LogRateLimiter
from worker.own_namespace import DEFAULT_NAMESPACE

if TYPE_CHECKING:  # plans from files use this cache without the client's libraries
    from activities.kubernetes.client import Kube

log = loggers.CACHE


class ClusterCache(ClusterState):
    """The cluster as the API server reports it. `run` keeps it up to date. Read it only when `synced`."""

    def __init__(
        self,
        kube: Kube,
        *,
        clock: Callable[[], float] = time.time,
        silence_limit: float = SILENCE_SECONDS,
        gates: FeatureGates | None = None,
        default_spread: DefaultSpread = NOTHING,
        namespace: str = DEFAULT_NAMESPACE,
        every_claim: bool = False,
        without: Collection[resources.Resource] = (),
        may_lack: Collection[resources.Resource] = (),
    ) -> None:
        """Create the reflectors.

        Args:
            silence_limit: seconds of silence after which a watch is restarted.
            gates: feature gates. Kinds whose gate is off are not read.
            default_spread: the default topology spread. Without one, Services and workloads are not read.
            namespace: the namespace of Tenon, where the versions of NodePools are recorded.
            every_claim: as in `ClusterState`.
            without: resources that are not read, because the caller fills their tables.
            may_lack: resources of whose missing CRDs no warning is logged, because another controller runs the cluster.
        """
        super().__init__(clock, every_claim=every_claim)
        self._kube = kube
        self._silence_limit = silence_limit
        self._may_lack = may_lack
        gates = gates or FeatureGates()
        self.deletion_costs_managed = gates.pod_deletion_cost_management
        self._gated: dict[str, resources.Resource] = {}
        """By plural: kinds whose CRD may be missing, because an upgrade of a Helm chart does not install new CRDs."""
        self._rollouts = self._reflect_gated(resources.NODEROLLOUTS, decode_object, self.versions.rollouts)
        self._revisions = Reflector(
            kube,
            resources.CONTROLLERREVISIONS,
            decode_revision,
            self.versions.revisions,
            silence_limit=silence_limit,
            scope=Scope(namespace, label_selector=labels.NODEPOOL),
        )
        self.spreading.defaults = default_spread
        left_out = {resource.plural for resource in without}
        self._reflectors: list[Reflector[Any]] = [
            reflector
            for reflector in (
                *self._reflectors_of_all(with_containers=gates.vpa_predictions),
                *self._gated_reflectors(gates),
                self._rollouts,
                self._revisions,
                *(self._spread_reflectors() if default_spread else ()),
            )
            if reflector.plural not in left_out
        ]
        self._by_plural = {reflector.plural: reflector for reflector in self._reflectors}
        self._synced_at = 0.0

    def _reflect(self, resource: resources.Resource, decode: Callable[[Any], Any], table: Table[Any]) -> Reflector[Any]:
        return Reflector(self._kube, resource, decode, table, silence_limit=self._silence_limit)

    def _reflect_gated(
        self, resource: resources.Resource, decode: Callable[[Any], Any], table: Table[Any]
    ) -> Reflector[Any]:
        """The reflector of a kind whose CRD may be missing."""
        self._gated[resource.plural] = resource
        return self._reflect(resource, decode, table)

    def _reflectors_of_all(self, *, with_containers: bool) -> list[Reflector[Any]]:
        """Those that no feature gate switches off."""
        reflect = self._reflect
        return [
            reflect(resources.PODS, decode_pod_with_containers if with_containers else decode_pod, self.pods),
            reflect(resources.NODES, decode_node, self.nodes),
            reflect(resources.NODECLAIMS, decode_nodeclaim, self.claims),
            reflect(resources.NODEPOOLS, decode_object, self.pools),
            reflect(resources.EC2NODECLASSES, decode_object, self.nodeclasses),
            reflect(resources.DAEMONSETS, decode_daemonset, self.daemonsets),
            reflect(resources.LIMITRANGES, decode_limit_range, self.limit_ranges),
            reflect(resources.NAMESPACES, decode_namespace, self.namespaces),
            reflect(resources.PVCS, decode_pvc, self.storage.pvcs),
            reflect(resources.PVS, decode_volume, self.storage.volumes),
            reflect(resources.STORAGECLASSES, decode_class, self.storage.classes),
            reflect(resources.CSINODES, decode_csi_node, self.csi.nodes),
            reflect(resources.CSIDRIVERS, decode_csi_driver, self.csi.drivers),
            reflect(resources.PDBS, decode_pdb, self.moving.pdbs),
            self._reflect_gated(resources.DISRUPTIONFREEZES, decode_object, self.freezes),
            self._reflect_gated(resources.NODESCHEDULES, decode_object, self.schedules),
        ]

    def _gated_reflectors(self, gates: FeatureGates) -> Iterator[Reflector[Any]]:
        """Those of what a feature gate uses."""
        if gates.node_overlay:
            yield self._reflect_gated(resources.NODEOVERLAYS, decode_object, self.overlays)
        if gates.node_repair:
            yield self._reflect_gated(resources.NODEREPAIRPOLICIES, decode_object, self.repair_policies)
        if gates.capacity_buffer:
            yield self._reflect_gated(resources.CAPACITYBUFFERS, decode_namespaced, self.buffers)
            for resource in (
                resources.DEPLOYMENTS,
                resources.STATEFULSETS,
                resources.REPLICASETS,
                resources.PODTEMPLATES,
            ):
                yield self._reflect(resource, decode_generation, self.buffer_targets[resource.kind])
        if gates.vpa_predictions:
            yield self._reflect_gated(resources.VPAS, decode_vpa, self.predictions.vpas)

    def _spread_reflectors(self) -> list[Reflector[Any]]:
        """Those of what says which pods a default topology spread counts together."""
        owners = self.spreading.owners
        return [
            self._reflect(resources.SERVICES, decode_service, self.spreading.services),
            self._reflect(
                resources.REPLICATIONCONTROLLERS, decode_replication_controller, owners["replicationcontrollers"]
            ),
            self._reflect(resources.REPLICASETS, decode_workload, owners["replicasets"]),
            self._reflect(resources.STATEFULSETS, decode_workload, owners["statefulsets"]),
        ]

    async def run(self) -> None:
        """Watch the cluster until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(self._follow(reflector), name=f"reflect {reflector.plural}")
            await self.wait_synced()
            self._synced_at = self.clock()

    async def _follow(self, reflector: Reflector[Any]) -> None:
        """Watch one resource. If its CRD is not installed, treat it as empty and check again periodically."""
        if reflector is self._revisions:
            await self._first_rollout()
        resource, log_limiter = self._gated.get(reflector.plural), LogRateLimiter()
        while resource is not None and not await served(self._kube, resource, log_limiter):
            # No feature gate asks for NodeRollouts.
            if not reflector.synced.is_set() and reflector is not self._rollouts and resource not in self._may_lack:
                log.warning(
                    "The API server does not serve a resource, so objects of it have no effect: apply its "
                    "CustomResourceDefinition",
                    extra={"resource": f"{resource.plural}.{resource.group}"},
                )
            reflector.synced.set()
            await asyncio.sleep(RECHECK_SECONDS)
        await reflector.run()

    async def _first_rollout(self) -> None:
        """Wait until a NodeRollout exists. Without one, versions are not recorded, and none is read."""
        with self.subscribe([Topic.ROLLOUT]) as news:
            await self._rollouts.synced.wait()
            while not self.versions.rollouts:
                self._revisions.synced.set()
                await news.next()

    @property
    def synced(self) -> bool:
        """Whether every resource has been read completely once."""
        return all(reflector.synced.is_set() for reflector in self._reflectors)

    @property
    def required_resources(self) -> list[resources.Resource]:
        """The resources in all namespaces without which the cache never becomes complete."""
        return [
            reflector.resource
            for reflector in self._reflectors
            if reflector.plural not in self._gated and reflector is not self._revisions
        ]

    @property
    def unsynced_resources(self) -> list[str]:
        """The resources that have not been read completely yet, as kubectl and RBAC name them."""
        return [reflector.plural for reflector in self._reflectors if not reflector.synced.is_set()]

    async def wait_synced(self) -> None:
        """Wait until `synced` is true."""
        for reflector in self._reflectors:
            await reflector.synced.wait()

    def silent_for(self, resource: resources.Resource) -> float:
        """Seconds since the API server last sent anything about this resource."""
        return self._by_plural[resource.plural].silent_for()

    async def refresh(self, resource: resources.Resource, seconds: float) -> None:
        """Drop the watch of this resource and list it again. Returns when the new copy is complete.

        Raises:
            TimeoutError: the copy did not arrive within ``seconds``. It will still arrive later.
        """
        async with asyncio.timeout(seconds):
            await self._by_plural[resource.plural].refresh()

    async def wait_for_claims(self, claim_names: Collection[str], seconds: float) -> bool:
        """Wait until the cache holds all these NodeClaims. Returns False after ``seconds`` without success."""
        with self.subscribe([Topic.CLAIM]) as news:
            try:
                async with asyncio.timeout(seconds):
                    while not self.has_claims(claim_names):
                        await news.next()
            except TimeoutError:
                return False
        return True

    def pending_pods(self) -> list[Pod]:
        """Pods that wait for capacity or must leave their node, whether or not a plan covers them."""
        return [self.planned_pod(record) for record in (*self.pending(), *self.moving_pods())]

    def scheduling_nodes(self, now: float | None = None) -> list[Node]:
        """Existing and in-flight capacity, sorted by name."""
        return capacity.scheduling_nodes(self, self.clock() if now is None else now)

    def daemons(self) -> list[Pod]:
        """One template pod for each DaemonSet."""
        return capacity.daemon_pods(self)

    def namespace_labels(self) -> dict[str, Mapping[str, str]]:
        """The labels of every namespace."""
        return {record.key: record.value for record in self.namespaces}

    def pool_usages(self, *, with_leaving: bool = False, at_most: bool = False) -> Mapping[str, Resources]:
        """By NodePool: the usage of its limits by its nodes and claims, including the pseudo-resource ``nodes``."""
        return pool_usages(self, with_leaving=with_leaving, at_most=at_most)

    def empty_since(self, claim: ClaimRecord, now: float | None = None) -> float | None:
        """When an initialized node became empty, in seconds since the epoch.

        None if the node has a pod that would need another node, or if such a pod is on its way. The time comes from the
        last pod event that this cache saw or that the claim's status records. A cache that saw none counts from its own
        start, so that a restart can delay a removal but never hasten it.
        """
        node = self.node_of(claim)
        if node is None or not claim.initialized:
            return None
        if self.occupied(node.name) or awaits_pods(self, claim, self.clock() if now is None else now):
            return None
        noted = claim.last_pod_event
        last_event = self.last_pod_event(node.name) or 0.0
        latest = max(noted.timestamp() if noted is not None else 0.0, last_event) or self._synced_at
        initialized_at = claim.initialized_at
        return max(latest, initialized_at.timestamp()) if initialized_at is not None else latest
