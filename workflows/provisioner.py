"""The workflow, one per cluster, that turns pending pods into NodeClaims: it waits for a batch, plans it, and repeats.

The wait is a long poll of the cluster process, which watches the pods. The plan activity writes the NodeClaims itself
and returns only figures, so nothing here grows with the number of pods.

Waiting and planning are separate activities on purpose. This workflow keeps EC2's refusals, which arrive at any time. A
refused NodePool must interrupt a wait, so that the next plan gets every refusal up to its start. Nothing must interrupt
a plan, because a stream of refusals could then keep pods from ever being planned. A single activity could not
distinguish the two (`tests/workflows/test_provisioner_refusals.py`).
"""

from __future__ import annotations

import sys
from datetime import datetime

from pydantic import Field
from temporalio import workflow

from tenon.evolve import evolve

with workflow.unsafe.imports_passed_through():
    from tenon.ec2.refusals import backoff
    from tenon.ec2.refusals.unavailable import backoffs_of, grouped
    from tenon.kube.offerings import OfferingKey
    from tenon.messages.base import POLL_SECONDS, QUIET_POLL_SECONDS, ActivityName, WorkflowInput
    from tenon.messages.provisioning import (
        AwaitBatchInput,
        BatchOutcome,
        BatchSummary,
        ClusterCost,
        LaunchBreaker,
        LaunchReport,
        PlanInput,
        PlanResult,
        PurchasePause,
        UnavailableTypes,
        UnlaunchedClaims,
    )
    from tenon.node import launch_breaker
    from tenon.provisioning import page
    from tenon.provisioning.batch_lines import remembered, with_unlaunched
    from tenon.provisioning.pending_pods import without_placed_pods
    from tenon.provisioning.shortage_sentences import still_waiting
    from tenon.sentences import counted
    from workflows.continuing import continue_as_new, is_for_another_version, must_continue_as_new
    from workflows.planner_call import PlannerCaller

MAX_HISTORY = 500
"""The number of history events after which a run continues as new once it has a batch."""
WAITS = "waits for pods that fit on no node, then for the batch window"
MAX_REPORTS = 200
"""The number of refusal reports after which a run continues as new, even in the middle of a long poll."""


class ProvisionerInput(WorkflowInput):
    """The state that each run passes on when it continues as new."""

    cluster: str
    batch: int = 0
    unavailable: list[UnavailableTypes] = Field(default_factory=list)
    breakers: list[LaunchBreaker] = Field(default_factory=list)
    pauses: list[PurchasePause] = Field(default_factory=list)
    last_plan: PlanResult | None = None
    plan_queue: str = ""
    last_batches: list[BatchOutcome] = Field(default_factory=list)
    """What became of the last batches that were planned, for the page."""
    cost: ClusterCost | None = None
    """What the cluster cost when the planner last answered, for the page."""


def first_input(cluster: str, plan_queue: str) -> ProvisionerInput:
    """Return the input of a new provisioner."""
    return ProvisionerInput(headline=page.headline(cluster, []), why=page.WHY, cluster=cluster, plan_queue=plan_queue)


@workflow.defn(name="Provisioner")
class ProvisionerWorkflow(PlannerCaller):
    """Waits for batches of pods, has them planned, and keeps what EC2 and kube-scheduler refuse."""

    @workflow.init
    def __init__(self, begin: ProvisionerInput) -> None:
        super().__init__(begin.plan_queue)
        self.cluster = begin.cluster
        # Batch numbers start at the wall clock, so that a provisioner that was terminated and started again never
        # reuses the number of an earlier batch, and with it the NodeClaim names.
        self.batch = begin.batch or int(workflow.now().timestamp())
        self.unavailable = backoffs_of(begin.unavailable)
        """What EC2 refused, also what plans use again: the next refusal of that leads to a longer pause."""
        self.breakers = launch_breaker.by_key(begin.breakers)
        self.pauses = begin.pauses
        self.reports = 0
        self.breakers_changed = False
        self.last_plan = begin.last_plan
        self.last_batches = begin.last_batches
        self.unlaunched: list[UnlaunchedClaims] = []
        """NodeClaims of the batch that is being planned, of which EC2 may refuse the first before the plan returns."""
        self.cost = begin.cost
        self.action = WAITS
        """What the page says that the workflow does now."""

    @workflow.run
    async def run(self, begin: ProvisionerInput) -> None:
        """Collect and plan batches. Never returns; continues as new when the history grows."""
        while True:
            batch = await self._await_batch()
            if batch is not None and batch.pods:
                await self._plan(batch)
            long = must_continue_as_new(MAX_HISTORY if batch is not None else sys.maxsize)
            if long or self.reports >= MAX_REPORTS:
                await workflow.wait_condition(workflow.all_handlers_finished)
                continue_as_new(
                    evolve(
                        begin,
                        headline=page.headline(self.cluster, self.last_batches),
                        why=page.WHY,
                        last_batches=self.last_batches,
                        batch=self.batch,
                        unavailable=grouped(self.unavailable),
                        breakers=list(self.breakers.values()),
                        pauses=self.pauses,
                        last_plan=self.last_plan,
                        plan_queue=self.plan_queue,
                        cost=self.cost,
                    )
                )

    async def _await_batch(self) -> BatchSummary | None:
        """The next batch, or None to poll again, for example because EC2 now refuses other NodePools."""
        self.breakers_changed = False
        self._show(WAITS)
        breakers, pauses = self._open_breakers(), self.pauses
        wait_seconds = POLL_SECONDS if breakers or pauses else QUIET_POLL_SECONDS
        batch_input = AwaitBatchInput(cluster=self.cluster, breakers=breakers, pauses=pauses, wait_seconds=wait_seconds)
        batch = await self.poll(ActivityName.AWAIT_BATCH, batch_input, BatchSummary, WAITS, self._outdated)
        if batch is not None:
            self.pauses, self.cost = batch.pauses, batch.cost
            if not batch.pods and self.last_plan is not None:  # the pods that had a place have long got it
                self.last_plan = without_placed_pods(self.last_plan)
        return batch

    def _outdated(self) -> bool:
        return self.breakers_changed or self.reports >= MAX_REPORTS or is_for_another_version()

    async def _plan(self, batch: BatchSummary) -> None:
        self._forget()
        self.batch = max(self.batch + 1, int(workflow.now().timestamp()))  # a reset run repeats no number either
        avoided = self._unavailable_now()
        plan_input = PlanInput(
            cluster=self.cluster,
            batch=self.batch,
            unavailable=grouped(avoided),
            breakers=self._open_breakers(),
            pauses=self.pauses,
        )
        self._show(f"plans a batch of {counted(batch.pods, 'pod')}")
        summary = f"finds nodes for {counted(batch.pods, 'pending pod')}"
        planned = await self.call(ActivityName.PLAN, plan_input, PlanResult, summary)
        self.pauses = planned.pauses
        self.last_plan = evolve(planned, pauses=[], reopened=[], over_quota=[], planned_at=workflow.now())
        for key in (offering.key for offering in planned.reopened):
            before = avoided.get(key)
            if before is not None and self.unavailable.get(key) == before:  # what was reported meanwhile is newer
                self.unavailable[key] = backoff.launched(before, workflow.now())
        for key, used_up in backoffs_of(planned.over_quota).items():
            self.unavailable[key] = backoff.merged(self.unavailable.get(key), used_up)
        last_batches = remembered(self.last_batches, planned, self.batch, workflow.now())
        self.last_batches, self.unlaunched = with_unlaunched(last_batches, self.unlaunched), []

    def _show(self, action: str) -> None:
        """Update the page."""
        self.action = action
        now = workflow.now()
        workflow.set_current_details(
            page.current_details(
                self.cluster,
                action,
                self.last_batches,
                grouped(self.unavailable),
                self._open_breakers(),
                self.last_plan,
                self.pauses,
                now,
                self.cost,
            )
        )

    @workflow.signal(description="Sent by Tenon: what EC2 refuses. It is unavailable to plans for a while.")
    def launches_reported(self, report: LaunchReport) -> None:
        """Receive what EC2 refuses from an io process. It is unavailable to plans for a while."""
        self.reports += 1
        now = workflow.now()
        self._forget()
        for key, reported in backoffs_of(report.unavailable).items():
            self.unavailable[key] = backoff.merged(self.unavailable.get(key), reported)
        self.unlaunched += [group for group in report.unlaunched if group.batch == self.batch]
        self.last_batches = with_unlaunched(self.last_batches, report.unlaunched)
        before = self._refusals()
        self.breakers = launch_breaker.merged(self.breakers, report, now)
        if self._refusals() != before:
            self.breakers_changed = True
        self._show(self.action)

    def _forget(self) -> None:
        """Drop what EC2 refused so long ago that it no longer counts."""
        now = workflow.now()
        self.unavailable = {key: item for key, item in self.unavailable.items() if not backoff.is_forgotten(item, now)}

    def _unavailable_now(self) -> dict[OfferingKey, backoff.Backoff]:
        """The offerings that plans must not use now."""
        now = workflow.now()
        return {key: item for key, item in self.unavailable.items() if item.is_active(now)}

    def _open_breakers(self) -> list[LaunchBreaker]:
        """The breakers for which launches wait. The others only count."""
        return [open_breaker for open_breaker in self.breakers.values() if launch_breaker.is_open(open_breaker)]

    def _refusals(self) -> dict[str, tuple[str, datetime | None]]:
        """What plans depend on: what is refused, and since when NodeClaims keep their pods all the same."""
        return {
            key: (
                launch_breaker.sentence(open_breaker),
                open_breaker.refused_at if open_breaker.node_class and not open_breaker.boots else None,
            )
            for key, open_breaker in launch_breaker.by_key(self._open_breakers()).items()
        }

    @workflow.query(description="The figures of the last plan.")
    def last(self) -> PlanResult | None:
        """The figures of the last plan, or None before the first plan."""
        return self.last_plan

    @workflow.query(description="What EC2 refuses, and which pods wait for cheaper capacity.")
    def launches(self) -> LaunchReport:
        """What EC2 is known to refuse: offerings without capacity, and NodePools whose launches are held back.

        Also which pods wait for cheaper capacity.
        """
        now = workflow.now()
        breakers = launch_breaker.merged(self.breakers, LaunchReport(), now)
        unavailable = self._unavailable_now()
        return LaunchReport(
            unavailable=grouped(unavailable),
            breakers=list(breakers.values()),
            waits=still_waiting(self.last_plan.waits if self.last_plan is not None else (), unavailable, now),
            kept_by=workflow.info().first_execution_run_id,
        )

    @workflow.query(description="The pods for which no more nodes are bought now.")
    def purchase_pauses(self) -> list[PurchasePause]:
        """The pods that nodes were bought for and did not get, while no more nodes are bought for them."""
        now = workflow.now()
        return [pause for pause in self.pauses if pause.until is not None and pause.until > now]
