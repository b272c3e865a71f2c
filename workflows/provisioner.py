"""One workflow a cluster that turns pending pods into NodeClaims: wait for a batch, plan it, go on.

The waiting is a long poll of the cluster process, which sees the pods; the plan activity writes the NodeClaims itself
and answers in figures. Nothing here grows with the number of pods.

Waiting and planning are two activities on purpose. What EC2 refuses is kept here, and comes at any time. A wait must be
open to such news: a NodePool that EC2 refuses interrupts it, and the plan that follows gets every refusal up to its
start. A plan must not be interrupted, or a stream of refusals would keep pods from ever being planned. One activity
that does both could not tell the two apart (`tests/workflows/test_provisioner_refusals.py`).
"""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field
from temporalio import workflow

from tenon.evolve import evolve

with workflow.unsafe.imports_passed_through():
    from tenon.ec2.avoided import by_offering, grouped
    from tenon.lifecycle import breaker
    from tenon.lifecycle.messages import (
        ActivityName,
        AwaitBatchInput,
        BatchSummary,
        LaunchBreaker,
        LaunchReport,
        Message,
        OfferingRef,
        PlanInput,
        PlanResult,
        RefusedTypes,
        UnavailableOffering,
    )
    from workflows.planner_call import PlannerCaller

UNAVAILABLE_FOR = timedelta(minutes=3)
"""How long an offering that EC2 refused for want of capacity is avoided (AWS-033)."""
MOST_REPORTS = 200
"""Reports of EC2's refusals after which a run is folded up, in the middle of a long poll too."""


class ProvisionerInput(Message):
    """What one run hands to the next."""

    cluster: str
    idle_seconds: float = 1.0
    """As `max_seconds`, read by earlier versions only: the window is the planner's own setting now."""
    max_seconds: float = 10.0
    batch: int = 0
    unavailable: list[UnavailableOffering] = Field(default_factory=list)
    """Of earlier versions; `refused` says the same in less."""
    refused: list[RefusedTypes] = Field(default_factory=list)
    breakers: list[LaunchBreaker] = Field(default_factory=list)
    last_plan: PlanResult | None = None
    plan_queue: str = ""


@workflow.defn(name="Provisioner")
class ProvisionerWorkflow(PlannerCaller):
    """Collect, plan, remember."""

    @workflow.init
    def __init__(self, begin: ProvisionerInput) -> None:
        super().__init__(begin.plan_queue)
        self.cluster = begin.cluster
        # Batch numbers start at the wall clock, so that a provisioner that was terminated and begun anew
        # never repeats the number, and with it the NodeClaim names, of an earlier batch.
        self.batch = begin.batch or int(workflow.now().timestamp())
        self.avoided = {u.offering.key: u.until for u in begin.unavailable}
        self.avoided |= by_offering(begin.refused, workflow.now())
        self.breakers = {held.pool: held for held in begin.breakers}
        self.reports = 0
        self.breakers_changed = False
        self.last_plan = begin.last_plan

    @workflow.run
    async def run(self, begin: ProvisionerInput) -> None:
        """Serve for ever."""
        while True:
            batch = await self._await_batch()
            if batch is not None and batch.pods:
                await self._plan(batch)
            long = batch is not None and workflow.info().get_current_history_length() > 500
            if long or self.reports >= MOST_REPORTS or workflow.info().is_continue_as_new_suggested():
                await workflow.wait_condition(workflow.all_handlers_finished)
                workflow.continue_as_new(
                    evolve(
                        begin,
                        batch=self.batch,
                        unavailable=[],
                        refused=grouped(self.avoided),
                        breakers=list(self.breakers.values()),
                        last_plan=self.last_plan,
                        plan_queue=self.plan_queue,
                    )
                )

    async def _await_batch(self) -> BatchSummary | None:
        """The next batch; None if it must be polled for again, for example because EC2 now refuses other NodePools."""
        self.breakers_changed = False
        given = AwaitBatchInput(cluster=self.cluster, breakers=list(self.breakers.values()))
        return await self.poll(ActivityName.AWAIT_BATCH, given, BatchSummary, "batch window", self._outdated)

    def _outdated(self) -> bool:
        return self.breakers_changed or self.reports >= MOST_REPORTS

    async def _plan(self, batch: BatchSummary) -> None:
        now = workflow.now()
        self.avoided = {key: until for key, until in self.avoided.items() if until > now}
        self.batch += 1
        given = PlanInput(
            cluster=self.cluster,
            batch=self.batch,
            refused=grouped(self.avoided),
            breakers=list(self.breakers.values()),
        )
        planned = await self.call(ActivityName.PLAN, given, PlanResult, f"{batch.pods} pending pods")
        self.last_plan = planned
        workflow.set_current_details(
            f"Batch {self.batch}: {planned.pods} pods, {len(planned.claims)} NodeClaims, "
            f"{planned.price:.4f} $/h, {planned.unschedulable} unschedulable"
        )

    @workflow.signal
    def offerings_unavailable(self, offerings: list[OfferingRef]) -> None:
        """As `launches_reported`, of a node's workflow whose launch an earlier version carried out."""
        until = workflow.now() + UNAVAILABLE_FOR
        self.avoided |= {offering.key: until for offering in offerings}

    @workflow.signal
    def launches_reported(self, report: LaunchReport) -> None:
        """What an io process knows of EC2's refusals: plan without it for a while."""
        self.reports += 1
        now = workflow.now()
        self.avoided |= by_offering(report.refused, now)
        before = breaker.sentences(self.breakers.values())
        self.breakers = breaker.merged(self.breakers, report, now)
        if breaker.sentences(self.breakers.values()) != before:
            self.breakers_changed = True

    @workflow.query
    def last(self) -> PlanResult | None:
        """The last plan, in figures."""
        return self.last_plan

    @workflow.query
    def launches(self) -> LaunchReport:
        """What EC2 refuses, as far as it is known: offerings without capacity, and NodePools that are held back."""
        now = workflow.now()
        held = breaker.merged(self.breakers, LaunchReport(), now)
        avoided = {key: until for key, until in self.avoided.items() if until > now}
        return LaunchReport(refused=grouped(avoided), breakers=list(held.values()))
