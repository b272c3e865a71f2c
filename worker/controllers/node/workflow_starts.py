"""Starts the workflows of NodeClaims, and the two workflows that a cluster has once.

A workflow that is open already is left alone. One that has completed is not started again for the same NodeClaim, which
the cache may show a moment longer.
"""

from __future__ import annotations

from temporalio.client import Client
from temporalio.common import SearchAttributePair, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from tenon.apis import labels
from tenon.disruption.commands import overview_page
from tenon.kube.claim_record import ClaimRecord
from tenon.messages.base import ClaimRef
from tenon.node import page
from tenon.provisioning import page as provisioning_page
from worker.controllers.workflow_start import ANSWER_WITHIN, start
from workflows import disruption, names, provisioner
from workflows.disruption import DisruptionWorkflow
from workflows.nodeclaim import NodeClaimWorkflow
from workflows.provisioner import ProvisionerWorkflow

MAX_ORIGIN = 100
"""How much of the annotation about the trace is sent. Users can write anything into it."""


class WorkflowStarts:
    """Starts workflows of one cluster."""

    def __init__(self, client: Client, cluster: str, plan_queue: str) -> None:
        """``plan_queue``: the task queue of this leader, which the two workflows use for planning."""
        self._client = client
        self._cluster = cluster
        self._plan_queue = plan_queue

    async def start_claim(self, claim: ClaimRecord) -> bool:
        """Start the claim's workflow. Return False if it has completed.

        Raises:
            RPCError: Temporal did not accept it.
        """
        try:
            await self._start(claim, WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY)
        except WorkflowAlreadyStartedError:
            if await self._uid_of_last(claim.name) == claim.uid:
                return False
            await self._start(claim, WorkflowIDReusePolicy.ALLOW_DUPLICATE)  # an earlier claim of that name
        return True

    async def start_singletons(self) -> None:
        """Start the workflows that buy nodes and that decide which nodes leave.

        Raises:
            RPCError: Temporal did not accept one.
        """
        await start(
            self._client,
            self._cluster,
            ProvisionerWorkflow.run,
            provisioner.first_input(self._cluster, self._plan_queue),
            names.provisioner_id(self._cluster),
            summary="buys nodes for pods that fit on no node",
            details=provisioning_page.ABOUT,
        )
        await start(
            self._client,
            self._cluster,
            DisruptionWorkflow.run,
            disruption.first_input(self._cluster, self._plan_queue),
            names.disruption_id(self._cluster),
            summary="decides which nodes leave",
            details=overview_page.ABOUT,
        )

    async def _start(self, claim: ClaimRecord, reuse: WorkflowIDReusePolicy) -> None:
        pool = claim.pool
        await start(
            self._client,
            self._cluster,
            NodeClaimWorkflow.run,
            page.first_input(
                ClaimRef(cluster=self._cluster, name=claim.name, uid=claim.uid),
                pool,
                claim.annotations.get(labels.CREATED_IN_TRACE, "")[:MAX_ORIGIN],
            ),
            names.nodeclaim_id(self._cluster, claim.name),
            summary=page.summary(pool),
            details=page.static_details(pool),
            attributes=[
                SearchAttributePair(names.STAGE, "launching"),
                *([SearchAttributePair(names.POOL, pool)] if pool else []),
            ],
            memo={names.UID_MEMO: claim.uid},
            reuse=reuse,
        )

    async def _uid_of_last(self, name: str) -> str:
        """The UID of the claim of this name whose workflow ended last. Empty if Temporal has deleted that workflow."""
        try:
            last = await self._client.get_workflow_handle(names.nodeclaim_id(self._cluster, name)).describe(
                rpc_timeout=ANSWER_WITHIN
            )
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return ""
            raise
        return await last.memo_value(names.UID_MEMO, "", type_hint=str)
