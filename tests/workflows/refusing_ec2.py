"""A provisioner whose launches EC2 refuses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from temporalio import activity
from temporalio.client import WorkflowHandle
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from activities.node.launch_breakers import LaunchBreakers
from tenon.messages.base import ActivityName
from tenon.messages.offerings import OfferingRef
from tenon.messages.provisioning import (
    AwaitBatchInput,
    BatchSummary,
    PendingPods,
    PlanInput,
    PlanResult,
    PurchasePause,
    ShortageWait,
)
from workflows import names
from workflows.provisioner import ProvisionerInput, ProvisionerWorkflow

SPOT = OfferingRef(capacity_type="spot", instance_type="m5.large", zone="us-west-2a")


class Planning:
    """The cluster process: one pod waits whenever `pods` is set; ``requests`` and ``planned`` are the questions."""

    def __init__(self) -> None:
        self.requests: list[AwaitBatchInput] = []
        self.planned: list[PlanInput] = []
        self.pauses: list[PurchasePause] = []
        """What the waits report of pods that did not get their nodes."""
        self.waits: list[ShortageWait] = []
        """What plans report of pods that wait for cheaper capacity."""
        self.pending: list[PendingPods] = []
        """What plans report of pods without a node."""
        self.claims: list[str] = []
        """The NodeClaims that each plan creates."""
        self.reopened: list[OfferingRef] = []
        """The refused offerings of which the next plan sees instances."""
        self.pods = asyncio.Event()
        self.solves = asyncio.Event()
        """Unset while a plan takes its time."""
        self.solves.set()

    @activity.defn(name=ActivityName.AWAIT_BATCH)
    async def await_batch(self, await_batch_input: AwaitBatchInput) -> BatchSummary:
        self.requests.append(await_batch_input)
        await self.pods.wait()
        self.pods.clear()
        return BatchSummary(pods=1, pauses=self.pauses)

    @activity.defn(name=ActivityName.PLAN)
    async def plan(self, plan_input: PlanInput) -> PlanResult:
        self.planned.append(plan_input)
        await self.solves.wait()
        reopened, self.reopened = self.reopened, []
        return PlanResult(
            batch=plan_input.batch,
            pods=1,
            claims=self.claims,
            pauses=self.pauses,
            waits=self.waits,
            pending=self.pending,
            unschedulable=sum(group.count for group in self.pending if not group.has_place),
            reopened=reopened,
        )


@asynccontextmanager
async def provisioner(
    temporal: WorkflowEnvironment, cluster: str, planning: Planning, batch: int = 0
) -> AsyncIterator[WorkflowHandle[ProvisionerWorkflow, None]]:
    """The workflow at work, and the two queues served; it is terminated in the end. ``batch``: the last one before."""
    queue = names.task_queue(cluster)
    plan = Worker(
        temporal.client, task_queue=names.plan_queue(cluster), activities=[planning.await_batch, planning.plan]
    )
    with temporal.with_time_skipping_disabled():
        async with Worker(temporal.client, task_queue=queue, workflows=[ProvisionerWorkflow]), plan:
            await begin(temporal, cluster, batch)
            handle = temporal.client.get_workflow_handle_for(ProvisionerWorkflow.run, names.provisioner_id(cluster))
            yield handle
            await handle.terminate()


async def begin(temporal: WorkflowEnvironment, cluster: str, batch: int = 0) -> None:
    await temporal.client.start_workflow(
        ProvisionerWorkflow.run,
        ProvisionerInput(cluster=cluster, batch=batch),
        id=names.provisioner_id(cluster),
        task_queue=names.task_queue(cluster),
    )


def refusing() -> LaunchBreakers:
    """What an io process knows after two refusals."""
    breakers = LaunchBreakers(lambda: datetime.now(UTC))
    breakers.mark_unavailable([SPOT])
    breakers.refused("web", "Unauthorized", "you may not")
    return breakers
