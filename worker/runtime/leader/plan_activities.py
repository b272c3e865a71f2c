"""The activities of the plan queues, which only the leader serves: what they need is in its memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from temporalio import activity

from activities.disruption.disrupting import Disruptor
from activities.disruption.forecasting import Forecaster
from activities.disruption.saving_measurement import SavingMeasurement
from activities.provisioning.batching import Batcher
from activities.provisioning.planner import BatchPlanner
from activities.rollout.advancing import RolloutAdvancer
from tenon.evolve import evolve
from tenon.messages.base import ActivityName
from tenon.messages.command_steps import DisruptInput, MeasureInput, MeasureResult
from tenon.messages.disruption import AwaitDisruptionInput, DisruptionDecision, StepResult
from tenon.messages.forecast import ConsolidationForecast, ForecastInput
from tenon.messages.node_schedule import NodeScheduleInput, NodeScheduleResult
from tenon.messages.provisioning import AwaitBatchInput, BatchSummary, PlanInput, PlanResult
from tenon.messages.rollout import AdvanceRolloutInput, RolloutAdvance
from worker.controllers.cost.sampling import LatestCost
from worker.controllers.nodepool.temporal_schedules import ScheduleApplier
from worker.runtime.leader.leader_announcements import Announcements


class PlanActivities:
    """The activities of the plan queues."""

    def __init__(
        self,
        batcher: Batcher,
        planner: BatchPlanner,
        disruptor: Disruptor,
        forecaster: Forecaster,
        savings: SavingMeasurement,
        rollouts: RolloutAdvancer,
        schedules: ScheduleApplier,
        announced: Announcements,
        cost: LatestCost,
    ) -> None:
        self._batcher = batcher
        self._planner = planner
        self._disruptor = disruptor
        self._forecaster = forecaster
        self._savings = savings
        self._rollouts = rollouts
        self._schedules = schedules
        self._announced = announced
        self._cost = cost

    def all(self) -> Sequence[Callable[..., Any]]:
        """All activities."""
        return [
            self.await_batch,
            self.plan,
            self.await_disruption,
            self.validate_command,
            self.forecast,
            self.measure_saving,
            self.advance_rollout,
            self.apply_schedule,
        ]

    @activity.defn(name=ActivityName.AWAIT_BATCH)
    async def await_batch(self, batch_input: AwaitBatchInput) -> BatchSummary:
        """Wait for pods that fit on no node."""
        with self._announced.question_of(activity.info().workflow_id or ""):
            batch = await self._batcher.await_batch(batch_input)
        return evolve(batch, cost=self._cost.summary)

    @activity.defn(name=ActivityName.PLAN)
    async def plan(self, plan_input: PlanInput) -> PlanResult:
        """Plan one batch."""
        with self._announced.question_of(activity.info().workflow_id or ""):
            return await self._planner.plan(plan_input)

    @activity.defn(name=ActivityName.AWAIT_DISRUPTION)
    async def await_disruption(self, disruption_input: AwaitDisruptionInput) -> DisruptionDecision:
        """Wait for nodes that may be disrupted."""
        with self._announced.question_of(activity.info().workflow_id or ""):
            return await self._disruptor.await_candidates(disruption_input)

    @activity.defn(name=ActivityName.VALIDATE_COMMAND)
    async def validate_command(self, command_input: DisruptInput) -> StepResult:
        """Check that a disruption command still holds."""
        return await self._disruptor.validate(command_input.command)

    @activity.defn(name=ActivityName.FORECAST)
    async def forecast(self, forecast_input: ForecastInput) -> ConsolidationForecast:
        """Say what consolidation would do next."""
        return await self._forecaster.forecast(forecast_input)

    @activity.defn(name=ActivityName.MEASURE_SAVING)
    async def measure_saving(self, measure_input: MeasureInput) -> MeasureResult:
        """Compare what a disruption command saves with what was predicted."""
        return await self._savings.measure(measure_input)

    @activity.defn(name=ActivityName.ADVANCE_ROLLOUT)
    async def advance_rollout(self, advance_input: AdvanceRolloutInput) -> RolloutAdvance:
        """Say how a rollout goes on."""
        return await self._rollouts.advance(advance_input)

    @activity.defn(name=ActivityName.APPLY_SCHEDULE)
    async def apply_schedule(self, schedule_input: NodeScheduleInput) -> NodeScheduleResult:
        """Carry a NodeSchedule out, and say what holds now."""
        return self._schedules.apply(schedule_input.name)
