"""What the record says of plans."""

from __future__ import annotations

import asyncio
from typing import cast

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.provisioning.plan_recording import PlanRecorder
from activities.provisioning.planner import BatchPlanner
from tenon.record.entries import PlanEntry
from tenon.record.kept_inputs import KeptInputs
from tenon.scheduling.model import Problem
from tests.activities.provisioning.setting import BATCH, Setting
from tests.activities.record.kept import KeptRecord
from tests.tenon.scheduling.builders import node, pod


class Recorded(Setting):
    """A planner that keeps its record, and the problems that it was asked to keep."""

    def restart(self, solver: object = None) -> None:
        super().restart()
        self.record = KeptRecord()
        self.problems: list[Problem] = []

        self.planner = BatchPlanner(
            self.view,
            self.types,
            cast("Kube", self.kube),
            self.recorder,
            self.batcher,
            lambda: self.now,
            record=PlanRecorder(self.record, self, lambda: self.now),
        )

    async def keep(self, problem: Problem) -> KeptInputs:
        self.problems.append(problem)
        return KeptInputs(f"digest of {len(problem.pods)} pods")

    async def recorded(self) -> None:
        """Return when the plans so far are recorded."""
        await asyncio.gather(*(task for task in asyncio.all_tasks() if task.get_name() == "keep plan inputs"))

    @property
    def entry(self) -> PlanEntry:
        (entry,) = self.record.entries
        assert isinstance(entry, PlanEntry)
        return entry


async def test_a_plan_is_recorded_with_what_it_buys_for_whom_and_why() -> None:
    at = Recorded(pod("a"), pod("b"))
    result = await at.planner.plan(BATCH)
    await at.recorded()
    (bought,) = at.entry.purchases
    assert (at.entry.cluster, at.entry.batch, at.entry.pods, at.entry.purchase_count) == ("c", 41, 2, 1)
    assert (at.entry.decision, at.entry.price) == (result.digest, result.price)
    assert (bought.claim, bought.pool, bought.price) == (result.claims[0], "default", result.price)
    assert (bought.pods, bought.pod_count) == (["default/a", "default/b"], 2)
    assert "the cheapest of" in bought.why.choice


async def test_a_plan_is_recorded_with_pods_on_nodes_that_exist_and_with_pods_that_fit_nowhere() -> None:
    at = Recorded(pod("a"), pod("huge", cpu="5000"))
    at.view.existing = [node("n1")]
    await at.planner.plan(BATCH)
    await at.recorded()
    assert at.entry.on_existing == {"n1": ["default/a"]}
    assert (at.entry.placed_count, at.entry.unschedulable_count) == (1, 1)
    assert at.entry.unschedulable["default/huge"].clause_of("default") is not None
    assert at.entry.purchases == []


async def test_the_inputs_of_a_plan_are_kept_and_named_by_their_digest() -> None:
    at = Recorded(pod("a"))
    await at.planner.plan(BATCH)
    await at.recorded()
    assert at.entry.inputs == "digest of 1 pods"
    assert len(at.problems) == 1


async def test_a_batch_that_was_planned_before_is_not_recorded_again() -> None:
    at = Recorded(pod("a"))
    await at.planner.plan(BATCH)
    await at.planner.plan(BATCH)
    await at.recorded()
    assert len(at.record.entries) == 1


async def test_a_plan_that_the_engine_would_not_make_again_has_no_inputs_and_says_why() -> None:
    """Its NodeClaims are not all that the engine wanted, so a replay would report a change that is none."""
    at = Recorded(pod("a"))
    at.kube.answer = lambda _: ApiError(422, "Invalid", "a policy refuses it")
    await at.planner.plan(BATCH)
    await at.recorded()
    assert (at.entry.inputs, at.problems) == ("", [])
    assert at.entry.inputs_lacking == "not all NodeClaims of the plan could be written"
