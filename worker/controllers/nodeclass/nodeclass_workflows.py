"""Starts a workflow for each EC2NodeClass, and pokes it when the class changes.

Every workflow is started again once a minute, which does nothing if it is open and repairs what an operator terminated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from temporalio.client import Client

from tenon.apis import labels
from tenon.apis.teardown import is_torn_down
from tenon.ec2.nodeclass import page
from tenon.kube.records import ObjectRecord
from worker.cache.changes import Change, Topic
from worker.cache.cluster import ClusterCache
from worker.controllers.base import ObjectController
from worker.controllers.workflow_start import ANSWER_WITHIN, start
from workflows import names
from workflows.nodeclass import NodeClassWorkflow

RESTART_SECONDS = 60.0
"""Seconds until the workflow of a class is started again, because an operator may have ended it."""


class NodeClassWorkflowController(ObjectController):
    """Ensures that each EC2NodeClass has a workflow that knows of its last change."""

    name = "nodeclass.workflows"
    object_field = "ec2nodeclass"
    topics = (Topic.NODECLASS, Topic.CLAIM)
    settle = 0.1
    backoff = (1.0, 5.0)

    def __init__(self, client: Client, cache: ClusterCache, cluster: str) -> None:
        super().__init__(cache)
        self._client = client
        self._cluster = cluster
        self._poked: dict[str, tuple[object, ...]] = {}
        """By name: the level of the class at its last poke."""
        self._restart_at: dict[str, float] = {}
        self._guarded: set[str] = set()
        """UIDs of classes that were seen with their finalizer."""

    def initial(self) -> Sequence[Change]:
        """All EC2NodeClasses."""
        return [(Topic.NODECLASS, node_class.name) for node_class in self._cache.nodeclasses]

    async def reconcile(self, changes: Sequence[Change]) -> float | None:
        """Reconcile the classes that changed. If a NodeClaim is gone, also those that are being deleted, because it may
        have been their last one.
        """
        classes = [change for change in changes if change[0] is Topic.NODECLASS]
        if any(topic is Topic.CLAIM and self._cache.claims.get(name) is None for topic, name in changes):
            classes += [
                (Topic.NODECLASS, node_class.name) for node_class in self._cache.nodeclasses if node_class.deleting
            ]
        return await super().reconcile(classes)

    async def reconcile_object(self, name: str) -> float | None:
        """Start the workflow of a class if it has none, and poke it if the class changed."""
        node_class = self._cache.nodeclasses.get(name)
        if node_class is None:
            self._poked.pop(name, None)
            self._restart_at.pop(name, None)
            return None
        now = asyncio.get_running_loop().time()
        level = self._level(node_class)
        changed = self._poked.get(name) != level or self._lost_finalizer(node_class)
        if not changed and (wait_seconds := self._restart_at.get(name, now) - now) > 0:
            return wait_seconds
        workflow_id = names.nodeclass_id(self._cluster, name)
        await start(
            self._client,
            self._cluster,
            NodeClassWorkflow.run,
            page.first_input(self._cluster, name),
            workflow_id,
            summary=f"EC2NodeClass {name}",
            details=page.ABOUT,
        )
        if changed:  # also the first time: it may have changed while no replica led
            handle = self._client.get_workflow_handle(workflow_id)
            await handle.signal(NodeClassWorkflow.poke, rpc_timeout=ANSWER_WITHIN)
            self._poked[name] = level
            if self._lost_finalizer(node_class):
                self._guarded.discard(node_class.uid)
        self._restart_at[name] = now + RESTART_SECONDS
        return RESTART_SECONDS

    def _level(self, node_class: ObjectRecord) -> tuple[object, ...]:
        """What the workflow must hear of at once if it changes. Annotations do not change the generation."""
        annotations = node_class.annotations
        return (
            *node_class.version_of_spec,
            self._has_claims(node_class),
            is_torn_down(annotations),
            annotations.get(labels.NVIDIA_CONSUMABLE_CAPACITY),
        )

    def _lost_finalizer(self, node_class: ObjectRecord) -> bool:
        """Whether a plain update (`kubectl replace`) removed the finalizer, which does not change the generation."""
        if labels.NODECLASS_FINALIZER in node_class.finalizers:
            self._guarded.add(node_class.uid)
            return False
        return node_class.uid in self._guarded

    def _has_claims(self, node_class: ObjectRecord) -> bool:
        """Whether a class that is being deleted still has NodeClaims. Its workflow is poked when the last one
        is gone.
        """
        return node_class.deleting and any(claim.node_class == node_class.name for claim in self._cache.claims)
