"""Records the versions of NodePools under a rollout, and says on EC2NodeClasses which of them are held back.

A version is recorded as soon as the specs make it, so that it can still be launched when they have changed again.
NodePools say the same in a condition of their own, which `NodePoolStatusController` writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from activities.clock import utc_now
from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ConflictError
from activities.kubernetes.resources import CONTROLLERREVISIONS, EC2NODECLASSES
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClassStatus
from tenon.apis.nodepool import NodePool
from tenon.kube.structs import Object
from tenon.rollout.revisions import Revision, superfluous, to_object
from tenon.rollout.version_condition import VERSION_HELD, with_version_held
from tenon.rollout.versions import PoolRollout
from worker.cache.changes import Change, Topic
from worker.cache.cluster import ClusterCache
from worker.cache.planning_view import PlanningView
from worker.controllers.base import Controller

RETRY = 5.0


class NodeRevisionController(Controller):
    """Writes ControllerRevisions and the condition VersionHeld of EC2NodeClasses while a NodeRollout exists."""

    name = "noderollout.revisions"
    object_field = "nodepool"
    topics = (Topic.ROLLOUT, Topic.POOL, Topic.NODECLASS)
    interval = 1.0
    resync = 3600.0

    def __init__(self, kube: Kube, cache: ClusterCache, view: PlanningView, namespace: str) -> None:
        """``namespace`` is that of Tenon, where versions are recorded."""
        super().__init__(cache)
        self._kube = kube
        self._view = view
        self._namespace = namespace

    async def reconcile(self, changes: Sequence[Change]) -> float | None:  # noqa: ARG002 - few NodePools, and most differ
        """Record what is new, and delete what is not needed any more."""
        rollouts = self._view.rollouts()
        pools = {pool.metadata.name: pool for pool in self._view.specs()} if rollouts else {}
        succeeded = [
            await self.isolate(name, self._record(pools[name], rollout))
            for name, rollout in rollouts.items()
            if name in pools
        ]
        succeeded += [
            await self.isolate(record.name, self._say_on_class(record.name, record.uid, rollouts, pools))
            for record in self._cache.nodeclasses
            if rollouts or record.condition(VERSION_HELD)
        ]
        return None if all(succeeded) else RETRY

    async def _record(self, pool: NodePool, rollout: PoolRollout) -> None:
        newest = self._view.newest_revision(pool)
        recorded = [
            record.value for record in self._cache.versions.revisions if record.value.pool == pool.metadata.name
        ]
        if newest is not None and newest.digest not in {revision.digest for revision in recorded}:
            await self._create(pool, newest, max((revision.number for revision in recorded), default=0) + 1)
        in_use = {rollout.current, rollout.target, newest.digest if newest is not None else ""}
        in_use |= {
            claim.annotations.get(labels.REVISION, "") for claim in self._cache.claims if claim.pool == rollout.pool
        }
        for revision in superfluous(recorded, in_use):
            await self._kube.delete(CONTROLLERREVISIONS, revision.name, namespace=self._namespace)

    async def _create(self, pool: NodePool, revision: Revision, number: int) -> None:
        body = to_object(revision, self._namespace, number)
        body["metadata"]["ownerReferences"] = [
            {
                "apiVersion": pool.api_version,
                "kind": pool.kind,
                "name": pool.metadata.name,
                "uid": pool.metadata.uid,
            }
        ]
        try:
            await self._kube.create(CONTROLLERREVISIONS, body, self._namespace)
        except ConflictError:
            return  # the watch has yet to show it
        self._log.info(
            "The controller recorded a version of a NodePool",
            extra={"nodepool": revision.pool, "revision": revision.digest, "ec2nodeclass": revision.class_name},
        )

    async def _say_on_class(
        self, name: str, uid: str, rollouts: dict[str, PoolRollout], pools: dict[str, NodePool]
    ) -> None:
        concerned = {
            pool: (rollout, self._view.newest_revision(pools[pool]))
            for pool, rollout in rollouts.items()
            if pool in pools and pools[pool].spec.template.spec.node_class_ref.name == name
        }

        def compute(present: Object) -> dict[str, Any]:
            written = (present.get("status") or {}).get("conditions") or []
            before = EC2NodeClassStatus.model_validate({"conditions": written}).conditions
            after = with_version_held(
                before, concerned, now=utc_now(), observed_generation=present["metadata"].get("generation")
            )
            if after == before:
                return {}
            return {"status": {"conditions": [condition.to_dict() for condition in after]}}

        record = self._cache.nodeclasses.get(name)
        read_object = record.body if record is not None else None
        await change(self._kube, EC2NODECLASSES, name, compute, uid=uid, subresource="status", read_object=read_object)
