"""One workflow a cluster that turns pending pods into NodeClaims: wait for a batch, plan it, go on.

The waiting is a long poll of the cluster process, which sees the pods; the plan activity writes the NodeClaims itself
and answers in figures. Nothing here grows with the number of pods.
"""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field
from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from tenon.lifecycle.messages import (
        ActivityName,
        AwaitBatchInput,
        BatchSummary,
        Message,
        OfferingKey,
        PlanInput,
        PlanResult,
        UnavailableOffering,
    )
    from workflows.planner import AsksPlanner

UNAVAILABLE_FOR = timedelta(minutes=3)
"""How long an offering that EC2 refused for want of capacity is avoided (AWS-033)."""


class ProvisionerInput(Message):
    """What one run hands to the next."""

    cluster: str
    idle_seconds: float = 1.0
    """As `max_seconds`, read by earlier versions only: the window is the planner's own setting now."""
    max_seconds: float = 10.0
    batch: int = 0
    unavailable: list[UnavailableOffering] = Field(default_factory=list)
    last_plan: PlanResult | None = None
    plan_queue: str = ""


@workflow.defn(name="Provisioner")
class ProvisionerWorkflow(AsksPlanner):
    """Collect, plan, remember."""

    @workflow.init
    def __init__(self, begin: ProvisionerInput) -> None:
        super().__init__(begin.plan_queue)
        self.cluster = begin.cluster
        # Batch numbers start at the wall clock, so that a provisioner that was terminated and begun anew
        # never repeats the number, and with it the NodeClaim names, of an earlier batch.
        self.batch = begin.batch or int(workflow.now().timestamp())
        self.unavailable = {_key(u.offering): u for u in begin.unavailable}
        self.last_plan = begin.last_plan

    @workflow.run
    async def run(self, begin: ProvisionerInput) -> None:
        """Serve for ever."""
        while True:
            batch = await self._await_batch()
            if batch is not None and batch.pods:
                await self._plan(batch)
            if workflow.info().is_continue_as_new_suggested() or (
                batch is not None and workflow.info().get_current_history_length() > 500
            ):
                await workflow.wait_condition(workflow.all_handlers_finished)
                workflow.continue_as_new(
                    begin.model_copy(
                        update={
                            "batch": self.batch,
                            "unavailable": list(self.unavailable.values()),
                            "last_plan": self.last_plan,
                            "plan_queue": self.plan_queue,
                        }
                    )
                )

    async def _await_batch(self) -> BatchSummary | None:
        """The next batch; None when the question must be put again, perhaps to another replica."""
        given = AwaitBatchInput(cluster=self.cluster)
        try:
            return await self.ask(ActivityName.AWAIT_BATCH, given, BatchSummary, "batch window")
        except ActivityError as error:
            workflow.logger.info("asking the planner again: %s", error.cause)
            return None

    async def _plan(self, batch: BatchSummary) -> None:
        now = workflow.now()
        self.unavailable = {key: u for key, u in self.unavailable.items() if u.until > now}
        self.batch += 1
        while (planned := await self._ask_for_plan(batch)) is None:
            workflow.logger.info("asking the new planner for batch %d", self.batch)
        self.last_plan = planned
        workflow.set_current_details(
            f"Batch {self.batch}: {planned.pods} pods, {len(planned.claims)} NodeClaims, "
            f"{planned.price:.4f} $/h, {planned.unschedulable} unschedulable"
        )

    async def _ask_for_plan(self, batch: BatchSummary) -> PlanResult | None:
        """The plan of this batch; None when another replica took over meanwhile: the same batch is put to it."""
        given = PlanInput(cluster=self.cluster, batch=self.batch, unavailable=list(self.unavailable.values()))
        return await self.ask(ActivityName.PLAN, given, PlanResult, f"{batch.pods} pending pods")

    @workflow.signal
    def offerings_unavailable(self, offerings: list[OfferingKey]) -> None:
        """EC2 refused these for want of capacity: plan without them for a while."""
        until = workflow.now() + UNAVAILABLE_FOR
        for offering in offerings:
            self.unavailable[_key(offering)] = UnavailableOffering(offering=offering, until=until)

    @workflow.query
    def last(self) -> PlanResult | None:
        """The last plan, in figures."""
        return self.last_plan


def _key(offering: OfferingKey) -> str:
    return f"{offering.capacity_type}/{offering.instance_type}/{offering.zone}"
