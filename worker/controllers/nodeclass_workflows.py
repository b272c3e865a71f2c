"""Starts and pokes the workflows of EC2NodeClasses, within the sweeps of `nodeclaim_workflows`."""

from __future__ import annotations

from temporalio.client import Client

from tenon.apis import labels
from tenon.kube.records import ObjectRecord
from tenon.lifecycle.messages import NodeClassInput
from worker.cache.cluster import ClusterCache
from worker.controllers.workflow_start import ANSWER_WITHIN, start
from workflows import names
from workflows.nodeclass import NodeClassWorkflow


class NodeClassWorkflows:
    """Ensures that each EC2NodeClass has a workflow, and pokes it when the class changes."""

    def __init__(self, client: Client, cache: ClusterCache, cluster: str) -> None:
        self._client = client
        self._cache = cache
        self._cluster = cluster
        self._levels: dict[str, str] = {}
        self._started: set[str] = set()
        self._guarded: set[str] = set()
        """UIDs of classes that were seen with their finalizer."""

    def forget_started(self) -> None:
        """Start each workflow again at the next reconcile, because an operator may have ended it."""
        self._started.clear()

    async def reconcile(self, name: str) -> None:
        """Start the workflow of a class if it has none, and poke it if the class changed."""
        found = self._cache.nodeclasses.get(name)
        if found is None:
            self._levels.pop(name, None)
            self._started.discard(name)
            return
        level = f"{found.uid}/{found.body['metadata'].get('generation')}/{found.deleting}/{self._holds(found)}"
        changed = self._levels.get(name) != level or self._lost_finalizer(found)
        if not changed and name in self._started:
            return
        workflow_id = names.nodeclass_id(self._cluster, name)
        given = NodeClassInput(cluster=self._cluster, name=name)
        await start(self._client, self._cluster, NodeClassWorkflow.run, given, workflow_id, summary=name)
        self._started.add(name)
        self._levels[name] = level
        if changed:  # also the first time: it may have changed while no replica led
            handle = self._client.get_workflow_handle(workflow_id)
            await handle.signal(NodeClassWorkflow.poke, rpc_timeout=ANSWER_WITHIN)
            if self._lost_finalizer(found):
                self._guarded.discard(found.uid)

    def _lost_finalizer(self, node_class: ObjectRecord) -> bool:
        """Whether a plain update (`kubectl replace`) removed the finalizer, which does not change the generation."""
        if labels.NODECLASS_FINALIZER in node_class.finalizers:
            self._guarded.add(node_class.uid)
            return False
        return node_class.uid in self._guarded

    def _holds(self, node_class: ObjectRecord) -> bool:
        """Whether a class that is being deleted still has NodeClaims. Its workflow is poked when the last one
        is gone.
        """
        return node_class.deleting and any(claim.node_class == node_class.name for claim in self._cache.claims)
