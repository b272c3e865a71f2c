"""What the provisioner's workflow keeps of EC2's refusals while processes come and go, on a real Temporal server."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.testing import WorkflowEnvironment

from activities.node.launch_breakers import LaunchBreakers
from tenon.apis.reasons import Reason
from tenon.ec2.refusals.backoff import FIRST_PAUSE, Backoff
from tenon.ec2.refusals.unavailable import grouped
from tenon.evolve import evolve
from tenon.messages.base import POLL_SECONDS, QUIET_POLL_SECONDS
from tenon.messages.provisioning import LaunchReport, PendingPods, PurchasePause, UnlaunchedClaims
from tenon.node.launch_breaker import FIRST_BOOT_PAUSE
from tests.workflows.refusing_ec2 import SPOT, Planning, begin, provisioner, refusing
from tests.workflows.waiting import until
from worker.runtime import launch_reports
from worker.runtime.launch_reports import report_launches
from workflows import names
from workflows.provisioner import MAX_REPORTS, ProvisionerWorkflow

pytestmark = pytest.mark.integration


async def test_a_breaker_is_heard_by_the_planner_at_once_and_so_is_its_end(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """The long poll that is open is started again: its answer may be ten minutes away."""
    planning = Planning()
    async with provisioner(temporal, cluster, planning) as handle:
        await until(lambda: asked(planning, 1))
        report = refusing().report()
        await handle.signal(ProvisionerWorkflow.launches_reported, report)
        await until(lambda: asked(planning, 2))
        assert [breaker.pool for breaker in planning.requests[1].breakers] == ["web"]
        await handle.signal(ProvisionerWorkflow.launches_reported, report)  # says nothing new
        await handle.signal(ProvisionerWorkflow.launches_reported, LaunchReport(closed=["web"]))
        await until(lambda: asked(planning, 3))
        assert planning.requests[2].breakers == []
        waits = [request.wait_seconds for request in planning.requests]
        assert waits[:3] == [QUIET_POLL_SECONDS, POLL_SECONDS, QUIET_POLL_SECONDS], "what ends with time is heard of"
        planning.pods.set()
        await until(lambda: planned(planning, 1))
    assert [group.instance_types for group in planning.planned[0].unavailable] == [["m5.large"]]
    assert len(planning.requests) <= 4


async def test_the_planner_hears_that_a_probe_of_an_ec2nodeclass_was_refused_again(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """The probe keeps its pods until then, so they would wait for the end of a poll of ten minutes."""
    planning = Planning()
    async with provisioner(temporal, cluster, planning) as handle:
        await until(lambda: asked(planning, 1))
        breakers = LaunchBreakers(lambda: datetime.now(UTC))
        for number in (1, 2):
            breakers.refused("web", "InvalidGroup", "no such group", node_class="default")
            again = [evolve(breaker, refused_at=datetime.now(UTC)) for breaker in breakers.report().breakers]
            await handle.signal(ProvisionerWorkflow.launches_reported, LaunchReport(breakers=again))
            await until(partial(asked, planning, number + 1))
        first, second = (item.breakers[0].refused_at for item in planning.requests[1:3])
        assert first is not None
        assert second is not None
        assert first < second


async def test_the_page_says_which_nodeclaims_ec2_refused_also_those_of_a_plan_that_has_not_returned(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """The first launches of a batch may be refused while the planner still writes its last NodeClaims."""
    planning = Planning()
    planning.claims = ["web-1", "web-2"]
    planning.pending = [
        PendingPods(why="web-1 was created for it", pods=["a/b"], count=1, has_place=True, claim="web-1")
    ]
    planning.solves.clear()
    async with provisioner(temporal, cluster, planning) as handle:
        planning.pods.set()
        await until(lambda: planned(planning, 1))
        batch = planning.planned[0].batch
        for name in planning.claims:
            claims = UnlaunchedClaims(batch=batch, reason=Reason.INSUFFICIENT_CAPACITY, claims=[name])
            await handle.signal(ProvisionerWorkflow.launches_reported, LaunchReport(unlaunched=[claims]))
            planning.solves.set()
            await until(lambda: asked(planning, 2))

        async def both_are_refused() -> bool:
            shown = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
            assert "on its way for" not in shown.current_details
            next_batch = (
                "The next batch plans a node for 1 pod (a/b): EC2 had no capacity for web-1" in shown.current_details
            )
            return next_batch and "1 pod: refused: no capacity for web-1, web-2" in shown.current_details

        await until(both_are_refused)


async def test_m4_many_reports_fold_the_run_and_nothing_is_forgotten(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """In the middle of a long poll, so that a storm never fills the history."""
    planning = Planning()
    async with provisioner(temporal, cluster, planning) as handle:
        first = (await handle.describe()).run_id
        report = refusing().report()
        for _ in range(MAX_REPORTS):
            await handle.signal(ProvisionerWorkflow.launches_reported, report)

        async def folded() -> bool:
            return (await handle.describe()).run_id != first

        await until(folded)
        node_state = await handle.query(ProvisionerWorkflow.launches)
        assert [breaker.pool for breaker in node_state.breakers] == ["web"]
        assert node_state.unavailable == report.unavailable


async def test_refusals_in_a_row_are_counted_over_continue_as_new_and_a_success_halves_them(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """Whatever process reports them: each knows only its own refusals."""
    planning, began = Planning(), datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=10)
    async with provisioner(temporal, cluster, planning) as handle:
        first = (await handle.describe()).run_id
        for minutes in (0, 2, 4, 6):
            at = began + timedelta(minutes=minutes)
            report = grouped({SPOT.key: Backoff(at + FIRST_PAUSE, at, 1)})
            await handle.signal(ProvisionerWorkflow.launches_reported, LaunchReport(unavailable=report))
        for _ in range(MAX_REPORTS):
            await handle.signal(ProvisionerWorkflow.launches_reported, LaunchReport())

        async def folded() -> bool:
            return (await handle.describe()).run_id != first

        await until(folded)
        (group,) = (await handle.query(ProvisionerWorkflow.launches)).unavailable
        assert (group.refusals, group.until) == (4, began + timedelta(minutes=21))
        planning.reopened = [SPOT]

        async def reopened() -> bool:
            planning.pods.set()  # again, because the last wait of the run before may have taken it
            return (await handle.query(ProvisionerWorkflow.launches)).unavailable == []

        await until(reopened)
        at = datetime.now(UTC)
        again = grouped({SPOT.key: Backoff(at + FIRST_PAUSE, at, 1)})
        await handle.signal(ProvisionerWorkflow.launches_reported, LaunchReport(unavailable=again))
        (group,) = (await handle.query(ProvisionerWorkflow.launches)).unavailable
        assert group.refusals == 3


async def test_a_refusal_that_arrives_while_a_plan_runs_stands(temporal: WorkflowEnvironment, cluster: str) -> None:
    """The plan says that capacity is back because of an instance that EC2 launched before."""
    planning, refused_at = Planning(), datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=2)

    def refusals(at: datetime) -> LaunchReport:
        return LaunchReport(unavailable=grouped({SPOT.key: Backoff(at + FIRST_PAUSE, at, 1)}))

    planning.reopened = [SPOT]
    planning.solves.clear()
    async with provisioner(temporal, cluster, planning) as handle:
        await handle.signal(ProvisionerWorkflow.launches_reported, refusals(refused_at))
        planning.pods.set()
        await until(lambda: planned(planning, 1))
        again = refused_at + timedelta(minutes=2)
        await handle.signal(ProvisionerWorkflow.launches_reported, refusals(again))
        planning.solves.set()
        await until(lambda: asked(planning, 2))
        planning.pods.set()
        await until(lambda: planned(planning, 2))
    (group,) = planning.planned[1].unavailable
    assert (group.refused_at, group.refusals) == (again, 2)


async def test_sch018_the_next_leader_hears_which_pods_did_not_get_their_nodes(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """Also after the run has continued as new."""
    planning = Planning()
    planning.pauses = [PurchasePause(group="scratch", nodes=2, until=datetime.now(UTC) + timedelta(minutes=1))]
    async with provisioner(temporal, cluster, planning) as handle:
        first = (await handle.describe()).run_id
        planning.pods.set()
        await until(lambda: asked(planning, 2))
        assert planning.planned[0].pauses == planning.pauses
        assert planning.requests[1].pauses == planning.pauses
        for _ in range(MAX_REPORTS):
            await handle.signal(ProvisionerWorkflow.launches_reported, LaunchReport())

        async def folded() -> bool:
            return (await handle.describe()).run_id != first and planning.requests[-1].pauses == planning.pauses

        await until(folded)


async def test_m8_refusals_outlive_the_io_process_and_the_provisioner(
    temporal: WorkflowEnvironment, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new io process learns them from the workflow; a workflow that was begun again learns them from the process."""
    monkeypatch.setattr(launch_reports, "LEARN_EVERY", 0.05)
    planning = Planning()
    async with provisioner(temporal, cluster, planning) as handle:
        breakers = refusing()
        telling = asyncio.create_task(report_launches(temporal.client, cluster, breakers))

        async def known() -> bool:
            node_state = await handle.query(ProvisionerWorkflow.launches)
            return [breaker.pool for breaker in node_state.breakers] == ["web"] and bool(node_state.unavailable)

        await until(known)
        restarted = LaunchBreakers(lambda: datetime.now(UTC))
        learning = asyncio.create_task(report_launches(temporal.client, cluster, restarted))

        async def learned() -> bool:
            same = restarted.report() == breakers.report()
            return same and await restarted.admit("web", "c") is not None

        await until(learned)
        learning.cancel()
        await handle.terminate()
        await begin(temporal, cluster)
        await until(known)
        telling.cancel()
        await asyncio.gather(learning, telling, return_exceptions=True)


async def test_instances_that_end_in_front_of_two_io_processes_add_up(
    temporal: WorkflowEnvironment, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Node that joins in front of one of them ends the pause of both."""
    monkeypatch.setattr(launch_reports, "LEARN_EVERY", 0.05)
    planning = Planning()
    async with provisioner(temporal, cluster, planning):
        processes = [LaunchBreakers(lambda: datetime.now(UTC), wait_seconds=0.0) for _ in range(2)]

        async def held() -> list[bool]:
            admitted = [await process.admit("web", "c", node_class="default") for process in processes]
            return [breaker is not None for breaker in admitted]

        async def both_pause() -> bool:
            return await held() == [True, True]

        async def none_pauses() -> bool:
            return await held() == [False, False]

        telling = [asyncio.create_task(report_launches(temporal.client, cluster, process)) for process in processes]
        processes[0].ended_booting("Client.InternalError", "no key", "i-1", node_class="default")
        await until(lambda: known_of(temporal, cluster, 1))
        assert await held() == [False, False]
        assert planning.requests[-1].breakers == [], "one end says little"
        processes[1].ended_booting("Client.InternalError", "no key", "i-2", node_class="default")
        await until(both_pause)

        async def planner_knows() -> bool:
            return [breaker.node_class for breaker in planning.requests[-1].breakers] == ["default"]

        await until(planner_knows)
        processes[1].registered("default", (), datetime.now(UTC) + FIRST_BOOT_PAUSE)
        await until(none_pauses)
        await until(lambda: known_of(temporal, cluster, 0))
        for task in telling:
            task.cancel()
        await asyncio.gather(*telling, return_exceptions=True)


async def known_of(temporal: WorkflowEnvironment, cluster: str, count: int) -> bool:
    """Whether the provisioner knows of so many ended instances."""
    handle = temporal.client.get_workflow_handle(names.provisioner_id(cluster))
    node_state = await handle.query(ProvisionerWorkflow.launches)
    return sum(len(breaker.ended) for breaker in node_state.breakers) == count


async def test_refusals_reach_a_plan_without_a_new_wait_and_never_interrupt_it(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """The reason why waiting and planning are two activities: one that did both would miss the first refusal, or be
    interrupted by the second in the middle of a plan.
    """
    planning = Planning()
    planning.solves.clear()
    async with provisioner(temporal, cluster, planning) as handle:
        await until(lambda: asked(planning, 1))
        breakers = LaunchBreakers(lambda: datetime.now(UTC))
        breakers.mark_unavailable([SPOT])
        await handle.signal(ProvisionerWorkflow.launches_reported, breakers.report())
        planning.pods.set()
        await until(lambda: planned(planning, 1))
        assert len(planning.requests) == 1
        assert [group.instance_types for group in planning.planned[0].unavailable] == [["m5.large"]]
        breakers.refused("web", "Unauthorized", "you may not")
        await handle.signal(ProvisionerWorkflow.launches_reported, breakers.report())
        planning.solves.set()
        await until(lambda: asked(planning, 2))
        last = await handle.query(ProvisionerWorkflow.last)
        assert last is not None
        assert last.batch == planning.planned[0].batch
    assert len(planning.planned) == 1
    assert [breaker.pool for breaker in planning.requests[-1].breakers] == ["web"]


async def asked(planning: Planning, times: int) -> bool:
    return len(planning.requests) >= times


async def planned(planning: Planning, times: int) -> bool:
    return len(planning.planned) >= times
