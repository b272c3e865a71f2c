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
    from workflows.options import OPTIONS

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


@workflow.defn(name="Provisioner")
class ProvisionerWorkflow:
    """Collect, plan, remember."""

    @workflow.init
    def __init__(self, begin: ProvisionerInput) -> None:
        self.cluster = begin.cluster
        # Batch numbers start at the wall clock, so that a provisioner that was terminated and begun anew
        # never repeats the number, and with it the NodeClaim names, of an earlier batch.
        self.batch = begin.batch or int(workflow.now().timestamp())
        self.unavailable = {_key(u.offering): u for u in begin.unavailable}
        self.last_plan = begin.last_plan
        self.planner_changed = False

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
                        }
                    )
                )

    async def _await_batch(self) -> BatchSummary | None:
        """The next batch; None when another replica took over planning and the question must be put to it."""
        self.planner_changed = False
        options = OPTIONS[ActivityName.AWAIT_BATCH]
        call = workflow.start_activity(
            ActivityName.AWAIT_BATCH.value,
            AwaitBatchInput(cluster=self.cluster, last_plan=self.last_plan),
            result_type=BatchSummary,
            task_queue=f"{workflow.info().task_queue}-plan",
            start_to_close_timeout=options.try_for,
            retry_policy=options.retry,
            cancellation_type=options.cancellation,
            summary="batch window",
        )
        await workflow.wait_condition(lambda: call.done() or self.planner_changed)
        if not call.done():
            call.cancel()
        try:
            batch: BatchSummary = await call
            return batch
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
        options = OPTIONS[ActivityName.PLAN]
        self.planner_changed = False
        call = workflow.start_activity(
            ActivityName.PLAN.value,
            PlanInput(
                cluster=self.cluster,
                batch=self.batch,
                unavailable=list(self.unavailable.values()),
                last_plan=self.last_plan,
            ),
            result_type=PlanResult,
            task_queue=f"{workflow.info().task_queue}-plan",
            start_to_close_timeout=options.try_for,
            retry_policy=options.retry,
            summary=f"{batch.pods} pending pods",
        )
        await workflow.wait_condition(lambda: call.done() or self.planner_changed)
        if not call.done():
            call.cancel()
        try:
            planned: PlanResult = await call
            return planned
        except ActivityError:
            if not self.planner_changed:
                raise
            return None

    @workflow.signal
    def offerings_unavailable(self, offerings: list[OfferingKey]) -> None:
        """EC2 refused these for want of capacity: plan without them for a while."""
        until = workflow.now() + UNAVAILABLE_FOR
        for offering in offerings:
            self.unavailable[_key(offering)] = UnavailableOffering(offering=offering, until=until)

    @workflow.signal
    def planner_started(self) -> None:
        """A cluster process began to serve the plan queue: a question put to its predecessor is lost."""
        self.planner_changed = True

    @workflow.query
    def last(self) -> PlanResult | None:
        """The last plan, in figures."""
        return self.last_plan


def _key(offering: OfferingKey) -> str:
    return f"{offering.capacity_type}/{offering.instance_type}/{offering.zone}"
