"""The cluster cache as rollouts read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime

from activities.clock import utc_now
from activities.rollout.cluster import ObservedPoolNode, ObservedRollout
from tenon.apis import labels
from tenon.apis.nodepool import NodePool
from tenon.apis.nodeschedule import why_closed
from tenon.apis.warm import FILLING, STARTING, STOPPED
from tenon.disruption.decision import DisruptionBlocked
from tenon.disruption.freezes.freeze import freezes_for, frozen_now
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.records import NodeRecord, PodRecord
from tenon.kube.timestamps import clock_instant
from tenon.rollout.gates import WaitingPod
from tenon.rollout.nodes import PoolNode
from worker.cache.cluster import ClusterCache
from worker.cache.evacuating_pods import leaving
from worker.cache.planning_view import PlanningView

_BEGINNING = datetime.min.replace(tzinfo=UTC)
LASTING_SECONDS = 60.0


class RolloutView:
    """Implements `activities.rollout.cluster.RolloutCluster`."""

    def __init__(
        self,
        cache: ClusterCache,
        view: PlanningView,
        now: Callable[[], datetime] = utc_now,
        why_blocked: Callable[[], Mapping[str, DisruptionBlocked]] = dict,
    ) -> None:
        """``why_blocked`` returns, by NodeClaim, why drift cannot remove it."""
        self._cache = cache
        self._view = view
        self._now = now
        self._why_blocked = why_blocked

    def synced(self) -> bool:
        """Whether every resource has been read completely once."""
        return self._cache.synced

    def rollout(self, name: str) -> ObservedRollout | None:
        """The NodeRollout of this name; None if it does not exist or is being deleted."""
        record = self._cache.versions.rollouts.get(name)
        if record is None or record.deleting:
            return None
        model, faults = self._view.node_rollout(record)
        rows = record.status.get("nodePools") or ()
        return ObservedRollout(model, record.uid, rows, [str(fault) for fault in faults])

    def pools_of(self, rollout: str) -> list[NodePool]:
        """The NodePools that follow this NodeRollout, by name."""
        by_pool = self._view.rollouts()
        pools = [
            pool
            for pool in self._view.specs()
            if pool.metadata.name in by_pool and by_pool[pool.metadata.name].rollout == rollout
        ]
        return sorted(pools, key=lambda pool: pool.metadata.name)

    def governed_by(self, rollout: str) -> set[str]:
        """The names of these NodePools, also of those that cannot be read."""
        return {name for name, governing in self._view.rollouts().items() if governing.rollout == rollout}

    def newest(self, pool: NodePool) -> str:
        """The version that the specs describe now; empty while the EC2NodeClass is not ready, and until it is recorded.

        A version that is not recorded is lost with the next change of the specs, so that nothing could launch it.
        """
        newest = self._view.newest_revision(pool)
        recorded = self._cache.versions.revision(pool.metadata.name, newest.digest) if newest is not None else None
        return recorded.digest if recorded is not None else ""

    def nodes_of(self, pool: str) -> list[ObservedPoolNode]:
        """The NodeClaims of a NodePool."""
        why_blocked = self._why_blocked()
        return [
            self._observed(claim, why_blocked.get(claim.name)) for claim in self._cache.claims if claim.pool == pool
        ]

    def refusal(self, pool: str, version: str) -> str:
        """Why the last launch of a version failed, in EC2's words; empty if it did not fail, or none was tried."""
        return self._cache.versions.refusals.of(pool, version)

    def in_version(self, pool: NodePool, version: str) -> NodePool | None:
        """A NodePool in a version of it; None if that is not recorded."""
        revision = self._cache.versions.revision(pool.metadata.name, version)
        return self._view.in_version(pool, revision) if revision is not None else None

    def closed(self, pool: NodePool) -> str:
        """Why a NodePool launches nothing by schedule, and until when, in a clause; empty if it does."""
        return why_closed(self._view.launching(pool).metadata.annotations)

    def frozen(self, pool: NodePool) -> str:
        """Which DisruptionFreeze holds for a NodePool and until when, in a clause; empty if none does."""
        freezes = freezes_for(self._view.disruption_freezes(), pool.metadata.name, pool.metadata.labels)
        frozen = frozen_now(freezes, self._now())
        return frozen.clause if frozen is not None else ""

    def _observed(self, claim: ClaimRecord, blocked: DisruptionBlocked | None) -> ObservedPoolNode:
        node = self._cache.node_of(claim)
        pool_node = PoolNode(
            claim=claim.name,
            zone=claim.labels.get(labels.ZONE, ""),
            created=claim.created_at or _BEGINNING,
            revision=claim.annotations.get(labels.REVISION, ""),
            initialized=claim.initialized,
            leaving=leaving(node, claim),
            drifted=claim.is_true("Drifted"),
            under_command=bool(claim.disrupted_by),
            leaving_since=claim.deleted_at,
            blocked=blocked.why if blocked is not None else "",  # the cause is the rollout's own wish
            warm=claim.warm in (FILLING, STOPPED),
        )
        if node is None:
            return ObservedPoolNode(pool_node)
        if claim.warm in (STOPPED, STARTING):  # its Node and pods are not Ready because Tenon stopped it
            return ObservedPoolNode(pool_node, node.name)
        return ObservedPoolNode(
            pool_node,
            node.name,
            [
                WaitingPod(
                    f"{record.pod.namespace}/{record.pod.name}",
                    clock_instant(_placed(record)),
                    record.owner_uid,
                )
                for record in self._cache.pods_on(node.name)
                if _waits(record)
            ],
            frozenset(_faults(node, self._now())) if claim.initialized else frozenset(),
        )


def _waits(record: PodRecord) -> bool:
    return not record.ready and not record.terminal and not record.deleting


def _placed(record: PodRecord) -> float:
    """When the pod got its node, or stopped to be Ready.

    A pod that waited for capacity has had no time to start, and one probe that failed is no reason to stop a rollout.
    """
    return max(record.bound_at, record.pod.created, record.unready_at)


def _faults(node: NodeRecord, now: datetime) -> Iterator[str]:
    """Yield the conditions that are faults. Those named Ready, as StorageReady, are if they have not been True for a
    while: a kubelet that restarts is not Ready for some seconds.
    """
    for condition in node.conditions:
        if condition.type.endswith("Ready"):
            lasts = now.timestamp() - condition.since >= LASTING_SECONDS
            is_fault = condition.status != "True" and lasts
        else:
            is_fault = condition.status == "True"
        if is_fault:
            yield f"{condition.type}={condition.status}"
