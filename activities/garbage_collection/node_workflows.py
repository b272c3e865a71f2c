"""Lists, checks, starts and signals the NodeClaim workflows for the sweep."""

from __future__ import annotations

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.service import RPCError, RPCStatusCode

from tenon.garbage_collection.facts import ObservedWorkflow
from tenon.messages.base import ClaimRef
from tenon.messages.node import Poke
from tenon.node import ids, page

CLUSTER = SearchAttributeKey.for_keyword(ids.CLUSTER_ATTRIBUTE)
POOL = SearchAttributeKey.for_keyword(ids.POOL_ATTRIBUTE)
STAGE = SearchAttributeKey.for_keyword(ids.STAGE_ATTRIBUTE)


class NodeWorkflows:
    """The NodeClaim workflows of one cluster. A list may be some moments old; a lookup by id is current."""

    def __init__(self, client: Client, cluster: str, task_queue: str) -> None:
        self._client = client
        self._cluster = cluster
        self._task_queue = task_queue

    async def opened(self) -> tuple[ObservedWorkflow, ...]:
        """All open NodeClaim workflows."""
        query = ids.open_nodeclaims_query(self._cluster)
        prefix = self._id("")
        return tuple(
            [
                ObservedWorkflow(
                    claim=workflow.id.removeprefix(prefix),
                    started_at=workflow.start_time,
                    uid=await workflow.memo_value(ids.UID_MEMO, "", type_hint=str),
                    leaving=workflow.typed_search_attributes.get(STAGE) == "leaving",
                )
                async for workflow in self._client.list_workflows(query)
                if workflow.id.startswith(prefix)
            ]
        )

    async def is_open(self, claim: str) -> bool:
        """Whether the claim's workflow is running."""
        try:
            description = await self._client.get_workflow_handle(self._id(claim)).describe()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return False
        return description.status is WorkflowExecutionStatus.RUNNING

    async def start(self, claim: str, uid: str, pool: str) -> None:
        """Start the claim's workflow as the NodeClaim controller does. A workflow that is already open continues."""
        attributes = [SearchAttributePair(CLUSTER, self._cluster), SearchAttributePair(STAGE, "launching")]
        if pool:
            attributes.append(SearchAttributePair(POOL, pool))
        await self._client.start_workflow(
            ids.NODECLAIM_WORKFLOW,
            page.first_input(ClaimRef(cluster=self._cluster, name=claim, uid=uid), pool),
            id=self._id(claim),
            task_queue=self._task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            search_attributes=TypedSearchAttributes(attributes),
            memo={ids.UID_MEMO: uid},
            static_summary=page.summary(pool),
            static_details=page.static_details(pool),
        )

    async def poke(self, claim: str, poke: Poke) -> bool:
        """Signal the claim's workflow. Return False if it is not open."""
        try:
            await self._client.get_workflow_handle(self._id(claim)).signal("poke", poke)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return False
        return True

    def _id(self, claim: str) -> str:
        return ids.nodeclaim_id(self._cluster, claim)
