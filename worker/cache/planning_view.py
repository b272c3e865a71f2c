"""The cluster cache as planning and disruption read it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from activities import loggers
from activities.cluster_view.interfaces import Fingerprint
from activities.kubernetes.resources import NODECLAIMS, PODS
from tenon.apis import labels
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.pod import Pod
from tenon.kube.timestamps import from_epoch
from tenon.provisioning.cost_limits import BoughtOffering
from tenon.resources import Resources
from tenon.rollout.revisions import class_key
from tenon.scheduling.model import Node
from worker.cache.buying import still_needs
from worker.cache.changes import Topic
from worker.cache.cluster import ClusterCache
from worker.cache.evacuating_pods import leaving
from worker.cache.new_nodes import is_unused, undeclared_taint
from worker.cache.node_pool_view import NodePoolView
from worker.cache.purchases import purchases
from worker.cache.supply_fingerprints import SupplyFingerprints

if TYPE_CHECKING:
    from tenon.disruption.nodes import ManagedNode
    from worker.cache.managed_nodes import ManagedNodes
    from worker.cache.snapshot import Snapshot

log = loggers.CACHE

CATCH_UP_SECONDS = 3.0
"""Seconds to wait until the watch delivers a NodeClaim that the API server has. After that the cache counts as
behind.
"""
QUIET_SECONDS = 5.0
"""A pod watch that received something within this many seconds is up to date."""
REFRESH_SECONDS = 60.0

PLANNING_TOPICS = frozenset(
    {
        Topic.PENDING,
        Topic.CLAIM,
        Topic.NODE,
        Topic.POOL,
        Topic.NODECLASS,
        Topic.NAMESPACE,
        Topic.OVERLAY,
        Topic.BUFFER_ROOM,
        Topic.ROLLOUT,
    }
)
DISRUPTION_TOPICS = frozenset(
    {
        Topic.CLAIM,
        Topic.NODE,
        Topic.NODE_PODS,
        Topic.PENDING,
        Topic.POOL,
        Topic.BUFFER_ROOM,
        Topic.REPAIR_POLICY,
        Topic.FREEZE,
        Topic.ROLLOUT,
    }
)


class PlanningView(NodePoolView):
    """A live, read-only view of the cluster. It leaves out objects that cannot be read."""

    def __init__(self, cache: ClusterCache, *, limits_total_cost: bool = False) -> None:
        """``limits_total_cost``: whether a limit on costs applies to all NodePools together."""
        super().__init__(cache)
        self._fingerprints = SupplyFingerprints(cache, self, limits_total_cost=limits_total_cost)

    @cached_property
    def _managed(self) -> ManagedNodes:
        from worker.cache.managed_nodes import ManagedNodes  # only for disruption, which a plan from files does without

        return ManagedNodes(self._cache)

    def synced(self) -> bool:
        """Whether every resource has been read completely once."""
        return self._cache.synced

    def fingerprint(self) -> Fingerprint:
        """A value that changes whenever a pod that did not fit anywhere might fit now."""
        return self._fingerprints.now()

    def snapshot(self) -> Snapshot:
        """A snapshot of the cluster for use in another thread."""
        from worker.cache.snapshot import Snapshot  # as above

        pools = self.node_pools()
        keys = {record.name for record in self._cache.nodeclasses}
        keys |= {class_key(pool) for pool in (*pools, *self.wave_pools())}
        classes = {key: node_class for key in keys if (node_class := self.node_class(key)) is not None}
        return Snapshot(self._cache, self._cache.clock(), pools, classes)

    def pending_pods(self) -> list[Pod]:
        """Pods that kube-scheduler could not place, or whose node is leaving."""
        return self._cache.pending_pods()

    def nodes(self) -> list[Node]:
        """Existing and in-flight capacity."""
        return self._cache.scheduling_nodes()

    def daemons(self) -> list[Pod]:
        """One template pod for each DaemonSet."""
        return self._cache.daemons()

    def namespaces(self) -> Mapping[str, Mapping[str, str]]:
        """The labels of every namespace."""
        return self._cache.namespace_labels()

    def pool_usage(self, pool: str) -> Resources:
        """The most that a pool's nodes and claims may use of its limits. Nodes that are leaving count, because they
        still cost.
        """
        return self._cache.pool_usages(with_leaving=True, at_most=True).get(pool, {})

    def purchases(self) -> list[BoughtOffering]:
        """What the nodes and claims of all NodePools were bought as. Those that are leaving still cost."""
        return purchases(self._cache)

    def claim_names(self) -> Set[str]:
        """The names of all NodeClaims."""
        return self._cache.claims.keys()

    def warm_nodes(self) -> dict[str, str]:
        """The state of each warm node that stays and has a Node, by the Node's name."""
        states = {}
        for claim in self._cache.claims:
            if claim.warm and (node := self._cache.node_of(claim)) is not None and not leaving(node, claim):
                states[node.name] = claim.warm
        return states

    def warm_claim(self, node_name: str) -> ClaimRecord | None:
        """The NodeClaim of a warm node; None if it is gone or leaves."""
        node = self._cache.nodes.get(node_name)
        claim = self._cache.claim_of(node) if node is not None else None
        return claim if claim is not None and claim.warm and not leaving(node, claim) else None

    def launching_pools(self) -> Set[str]:
        """The names of the NodePools that have a NodeClaim without an instance."""
        return {claim.pool for claim in self._unlaunched()}

    def launching_claims(self) -> list[ClaimRecord]:
        """The NodeClaims that were planned for pods, have no instance yet, and stay."""
        return [claim for claim in self._unlaunched() if claim.batch]

    def _unlaunched(self) -> Iterator[ClaimRecord]:
        waiting = (claim for claim in self._cache.claims if not claim.launched)
        return (claim for claim in waiting if not leaving(self._cache.node_of(claim), claim))

    def all_claims(self) -> Iterable[ClaimRecord]:
        """All NodeClaims, also those that are being deleted."""
        return self._cache.claims

    def reserved_claims(self) -> list[ClaimRecord]:
        """The NodeClaims that name a capacity reservation in their labels."""
        return [claim for claim in self._cache.claims if labels.RESERVATION_ID in claim.labels]

    def claims_for(self, pod: Pod) -> list[ClaimRecord]:
        """The NodeClaims that were bought for a pod and stay, except those it does not need: it got another node."""
        record = self._cache.pods.get(pod.key)
        own_record = record if record is not None and record.uid == pod.uid else None
        claims = (self._cache.claims.get(name) for name in self._cache.bought.claims_for(pod.uid))
        return [
            claim
            for claim in claims
            if claim is not None
            and (own_record is None or still_needs(claim, own_record))
            and not leaving(self._cache.node_of(claim), claim)
        ]

    def is_unused(self, claim: ClaimRecord, pod: Pod) -> bool:
        """Whether a waiting pod could have had the ready node that was bought for it."""
        return is_unused(self._cache, claim, pod)

    def undeclared_taint(self, claim: ClaimRecord, pod: Pod) -> str:
        """The key of a taint on the claim's Node that the claim does not declare and the pod does not tolerate."""
        return undeclared_taint(self._cache, claim, pod)

    def place_of(self, name: str) -> str:
        """The name under which `nodes` lists what was a Node or NodeClaim of this name when a plan was made.

        A claim is listed under its Node's name once it has one. Empty if it is gone or leaving.
        """
        node = self._cache.nodes.get(name)
        if node is not None:
            return "" if leaving(node, self._cache.claim_of(node)) else name
        claim = self._cache.claims.get(name)
        if claim is None:
            return ""
        node = self._cache.node_of(claim)
        if leaving(node, claim):
            return ""
        return node.name if node is not None and self._cache.claim_of(node) is claim else name

    def newest_batch(self, up_to: int) -> int:
        """The highest batch number on a NodeClaim that is not above ``up_to``. 0 if there is none."""
        return max((claim.batch for claim in self._cache.claims if claim.batch <= up_to), default=0)

    async def catch_up(self, claims: Collection[str]) -> None:
        """Wait until the view holds these NodeClaims, or is newer than this call, which means that the missing ones are
        gone.

        Raises:
            TimeoutError: the API server could not be read.
        """
        if await self._cache.wait_for_claims(claims, CATCH_UP_SECONDS):
            return
        log.warning(
            "The watch of NodeClaims is behind, and the worker lists them again",
            extra={"nodeclaims": sorted(claims)[:10]},
        )
        await self._cache.refresh(NODECLAIMS, REFRESH_SECONDS)

    async def confirm_pods(self) -> bool:
        """Make sure that the pods are at most a few seconds old. Returns whether they had to be listed again.

        Raises:
            TimeoutError: the API server could not be read.
        """
        silent = self._cache.silent_for(PODS)
        if silent <= QUIET_SECONDS:
            return False
        log.info(
            "The watch of pods is quiet, and the worker lists them again before a launch",
            extra={"silent-seconds": round(silent)},
        )
        await self._cache.refresh(PODS, REFRESH_SECONDS)
        return True

    def quiet_since(self) -> dict[str, datetime]:
        """When the last pod came to each initialized node or left it, or when it was initialized, by NodeClaim."""
        quiet = {}
        for claim in self._cache.claims:
            node = self._cache.node_of(claim) if claim.initialized else None
            if node is None:
                continue
            since = claim.quiet_since(from_epoch(self._cache.last_pod_event(node.name)))
            if since is not None:
                quiet[claim.name] = since
        return quiet

    def evictions_allowed(self) -> int:
        """How often a PodDisruptionBudget may have begun to allow evictions."""
        return self._cache.moving.evictions_allowed

    def pods_released(self) -> dict[str, int]:
        """How often a pod with do-not-disrupt ended, went away or lost the annotation, by NodeClaim."""
        released = self._cache.pods_released
        nodes = ((claim.name, self._cache.node_of(claim)) for claim in self._cache.claims)
        return {claim: released[node.name] for claim, node in nodes if node is not None and node.name in released}

    def requests_on_nodes(self) -> dict[str, Resources]:
        """What the pods of each node request, by NodeClaim."""
        nodes = ((claim.name, self._cache.node_of(claim)) for claim in self._cache.claims)
        return {claim: self._cache.used(node.name) for claim, node in nodes if node is not None}

    def managed_nodes(self) -> list[ManagedNode]:
        """The nodes that disruption may consider."""
        return self._managed.now()

    def nodes_without_pool(self) -> list[ManagedNode]:
        """The nodes whose NodeClaim belongs to no NodePool."""
        return self._managed.without_pool()

    def node_uid(self, name: str) -> str:
        """The UID of a Node; empty if there is none of this name."""
        node = self._cache.nodes.get(name) if name else None
        return node.uid if node is not None else ""

    async def changed(self, seconds: float) -> None:
        """Wait for the next change that may affect which pods need a decision, for at most ``seconds``."""
        await self._wait_for_change(PLANNING_TOPICS, seconds)

    async def nodes_changed(self, seconds: float) -> None:
        """Wait for the next change that may affect `managed_nodes`, for at most ``seconds``."""
        await self._wait_for_change(DISRUPTION_TOPICS, seconds)

    async def _wait_for_change(self, topics: Collection[Topic], seconds: float) -> None:
        with self._cache.subscribe(topics) as news, contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await news.next()
