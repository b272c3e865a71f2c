"""NodePools and EC2NodeClasses: as users wrote them, in the versions of rollouts, and as schedules have them now.

A model stays the same object until it changes, because plans look up what they know of a NodePool by identity.
"""

from __future__ import annotations

from collections.abc import Mapping

from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodepool import NodePool
from tenon.apis.validation import FieldError, check_nodepool
from tenon.ec2.families.own_kubelet import own_kubelet_errors
from tenon.evolve import evolve
from tenon.kube.records import ObjectRecord
from tenon.provisioning.buffer_status import ResolvedBuffer
from tenon.provisioning.floors import floors
from tenon.rollout.revisions import (
    Revision,
    effective_class,
    effective_pool,
    newest_revision,
    without_revision,
)
from tenon.rollout.versions import PoolRollout
from tenon.schedule.desired import Desired
from tenon.schedule.node_pools import scheduled_pool
from worker.cache.cluster import ClusterCache
from worker.cache.object_models import ObjectModels, Versions, parsed
from worker.cache.schedules import Schedules


class NodePoolView(ObjectModels):
    """What NodePools and EC2NodeClasses are now."""

    def __init__(self, cache: ClusterCache) -> None:
        super().__init__(cache)
        self._pools: Versions[NodePool] = {}
        self._classes: Versions[EC2NodeClass] = {}
        self._versioned: dict[tuple[str, str], tuple[NodePool, Revision, NodePool, list[FieldError]]] = {}
        """By NodePool and digest: the NodePool as it is, a version, the NodePool of that version, and its problems."""
        self._newest: dict[str, tuple[NodePool, EC2NodeClass | None, Revision | None]] = {}
        """By NodePool, itself and its class, and the version that they make."""
        self._classes_of_versions: dict[str, tuple[EC2NodeClass, Revision, EC2NodeClass]] = {}
        """By key, the EC2NodeClass as it is, a version, and the class of that version."""
        self._own_kubelets: dict[str, tuple[EC2NodeClass, dict[str, list[str]]]] = {}
        self.schedules = Schedules(cache)
        """What NodeSchedules ask for."""
        self._scheduled: dict[str, tuple[NodePool, Desired, NodePool]] = {}
        """By name, a NodePool without schedules, what schedules ask for, and the NodePool that this makes."""

    def specs(self) -> list[NodePool]:
        """The NodePools that can be read, as users wrote them."""
        return [pool for record in self._cache.pools if (pool := self.node_pool(record)) is not None]

    def node_pools(self) -> list[NodePool]:
        """The NodePools that can be read, each in the version that ordinary launches have, as schedules have it now.

        A NodePool under a rollout keeps the last version that passed, whatever its spec says now.
        """
        pools = self.specs()
        rollouts = self.rollouts()
        return [self._by_schedule(self._launching(pool, rollouts.get(pool.metadata.name))) for pool in pools]

    def launching(self, pool: NodePool) -> NodePool:
        """A NodePool, as a user wrote it, in the version that ordinary launches have, as schedules have it now."""
        return self._by_schedule(self._launching(pool, self.rollouts().get(pool.metadata.name)))

    def rollouts(self) -> dict[str, PoolRollout]:
        """By name, what holds for each NodePool that a NodeRollout selects."""
        if not self._cache.versions.rollouts:
            return {}
        return self._cache.versions.by_pool({record.name: record.labels for record in self._cache.pools})

    def wave_pools(self) -> list[NodePool]:
        """The NodePools of which a rollout replaces nodes now, in the version that these nodes get."""
        rollouts = self.rollouts()
        if not any(rollout.wave_claims and rollout.launches_target for rollout in rollouts.values()):
            return []
        pools = []
        for pool in self.specs():
            rollout = rollouts.get(pool.metadata.name)
            if rollout is not None and rollout.wave_claims and rollout.launches_target:
                revision = self._cache.versions.revision(rollout.pool, rollout.replacement)
                if revision is not None:
                    pools.append(self.in_version(pool, revision))
        return pools

    def newest_revision(self, pool: NodePool) -> Revision | None:
        """The version that the spec of a NodePool and its EC2NodeClass make; None while the class is not ready."""
        node_class = self.node_class(pool.spec.template.spec.node_class_ref.name)
        entry = self._newest.get(pool.metadata.name)
        if entry is None or entry[0] is not pool or entry[1] is not node_class:
            entry = self._newest[pool.metadata.name] = (pool, node_class, newest_revision(pool, node_class))
        return entry[2]

    def _launching(self, pool: NodePool, rollout: PoolRollout | None) -> NodePool:
        if rollout is None:
            written = pool.metadata
            metadata = without_revision(written)
            return pool if metadata is written else evolve(pool, metadata=metadata)
        revision = self._cache.versions.revision(rollout.pool, rollout.current) or self.newest_revision(pool)
        return self.in_version(pool, revision) if revision is not None else pool

    def floors(self) -> dict[str, ResolvedBuffer]:
        """The pods that stand for the floors of NodePools now, by key."""
        pools = self.schedules.now().pools
        result: dict[str, ResolvedBuffer] = {}
        for name, demand in pools.items():
            record = self._cache.pools.get(name)
            pool = self.node_pool(record) if record is not None and not record.deleting else None
            if pool is not None and pool.spec.replicas is None:
                result |= floors(self.launching(pool), demand)
        return result

    def _by_schedule(self, pool: NodePool) -> NodePool:
        schedules_ask, name = self.schedules.now(), pool.metadata.name
        entry = self._scheduled.get(name)
        if entry is None or entry[0] is not pool or entry[1] is not schedules_ask:
            entry = self._scheduled[name] = (pool, schedules_ask, scheduled_pool(pool, schedules_ask))
        return entry[2]

    def in_version(self, pool: NodePool, revision: Revision) -> NodePool:
        """A NodePool, as a user wrote it, in one of its versions."""
        key = pool.metadata.name, revision.digest
        entry = self._versioned.get(key)
        if entry is None or entry[0] is not pool or entry[1] is not revision:
            effective = effective_pool(pool, revision)
            entry = self._versioned[key] = (pool, revision, effective, check_nodepool(effective))
        return entry[2]

    def node_pool(self, record: ObjectRecord) -> NodePool | None:
        """A NodePool's model, as a user wrote it. None if it cannot be read."""
        return parsed(self._pools, NodePool, record)[0]

    def pool_faults(self, pool: NodePool) -> list[FieldError]:
        """All problems of a NodePool. They are remembered for the models that the view returns."""
        name = pool.metadata.name
        scheduled = self._scheduled.get(name)
        if scheduled is not None and scheduled[2] is pool:
            pool = scheduled[0]  # what schedules change has no problems of its own
        _, (model, faults) = self._pools.get(name, ("", (None, [])))
        if model is pool:
            return faults
        entry = self._versioned.get((name, pool.metadata.annotations.get(labels.REVISION, "")))
        return entry[3] if entry is not None and entry[2] is pool else check_nodepool(pool)

    def node_class(self, name: str) -> EC2NodeClass | None:
        """The EC2NodeClass of this name or key (`class_key`). None if it does not exist or cannot be read."""
        plain_name, _, version = name.partition("@")
        record = self._cache.nodeclasses.get(plain_name)
        node_class = None if record is None else parsed(self._classes, EC2NodeClass, record)[0]
        recorded = self._cache.versions.revisions.get(version) if version else None
        if node_class is None or recorded is None:
            return node_class
        entry = self._classes_of_versions.get(name)
        if entry is None or entry[0] is not node_class or entry[1] is not recorded.value:
            effective = effective_class(node_class, recorded.value)
            entry = self._classes_of_versions[name] = (node_class, recorded.value, effective)
        return entry[2]

    def own_kubelet_faults(self, node_class: EC2NodeClass, annotations: Mapping[str, str]) -> list[str]:
        """Why a NodePool's own kubelet settings do not work with its class. Remembered until the class changes."""
        text = annotations.get(labels.V1BETA1_KUBELET)
        if text is None:
            return []
        cached = self._own_kubelets.get(node_class.metadata.name)
        if cached is None or cached[0] is not node_class:
            cached = self._own_kubelets[node_class.metadata.name] = (node_class, {})
        faults = cached[1].get(text)
        if faults is None:
            faults = cached[1][text] = own_kubelet_errors(node_class, annotations)
        return faults
