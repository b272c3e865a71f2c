"""The page of the disruption workflow is right as soon as a command ends, although the planner's call stays open."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from temporalio import activity
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import Client, WorkflowHandle, WorkflowUpdateFailedError, WorkflowUpdateStage
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment

from tenon.apis.reasons import Reason
from tenon.disruption.commands import forecast_page
from tenon.evolve import evolve
from tenon.messages.base import ActivityName
from tenon.messages.command_approval import AwaitsApproval
from tenon.messages.disruption import DisruptionCommand, DisruptionDecision
from tenon.messages.forecast import ConsolidationForecast, ForecastAnswer, ForecastCommand, ForecastInput
from tests.workflows.deciding_planner import Planner, answer, deciding, entry_of
from tests.workflows.fake_steps import NOW, command, leaves_first
from tests.workflows.waiting import until
from worker.runtime.temporal.temporal_plugin import TenonPlugin
from workflows import disruption, names
from workflows.disruption import DisruptionWorkflow
from workflows.disruption_command import DisruptionCommandWorkflow

pytestmark = pytest.mark.integration

EMPTY = evolve(command(replacements=0), id="empty-1", reason=Reason.EMPTY, moves_pods=False, only_if_empty=True)
DRIFTED = evolve(command(graceful=False), id="drifted-2", reason=Reason.DRIFTED, predicted=0.0)


async def page_of(handle: WorkflowHandle[DisruptionWorkflow, None]) -> str:
    page = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
    return str(page.current_details)


@pytest.mark.parametrize(
    ("started", "failure", "end"),
    [
        (EMPTY, "", "asked 2 nodes to leave"),
        (DRIFTED, "", "asked 2 nodes to leave"),
        (DRIFTED, "a pod came or went", "undone: a pod came or went"),
        (evolve(leaves_first(), id="drifted-3"), "", "NodeClaim default-2 replaced it"),
    ],
    ids=["empty", "drifted", "undone", "terminate-first"],
)
async def test_a_command_that_has_ended_is_not_under_way_while_the_planner_is_still_asked(
    temporal: WorkflowEnvironment, cluster: str, started: DisruptionCommand, failure: str, end: str
) -> None:
    planner = Planner(DisruptionDecision(commands=[started]))
    planner.fails[ActivityName.VALIDATE_COMMAND] = failure
    planner.finds[0] = evolve(planner.finds[0], running=["default-2"])
    async with deciding(temporal, cluster, planner) as handle:

        async def shows_the_end() -> bool:
            page = await page_of(handle)
            return "No command is under way" in page and f"/{started.id}): {end}" in page

        await until(shows_the_end)
        page = await page_of(handle)
    assert page.startswith(f"### Decides which nodes of cluster {cluster} leave\n")


WOULD_ACT = ConsolidationForecast(
    asked_at=NOW,
    at=NOW + timedelta(minutes=4),
    commands=[ForecastCommand(reason=Reason.UNDERUTILIZED, nodes=["node-1"], pools=["default"], saving=0.05)],
)


async def test_an_operator_sees_on_the_page_what_consolidation_would_do_next_until_a_command_starts(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    planner = Planner()
    planner.forecast = WOULD_ACT
    async with deciding(temporal, cluster, planner) as handle:
        replies = [
            await handle.execute_update("forecast", args=inputs, result_type=ForecastAnswer)
            for inputs in ([], [None], [{"by": "ann"}])  # the dialog of Temporal's UI may send something
        ]
        (reply,) = {tuple(reply.forecast) for reply in replies}
        assert reply[0] == "Next consolidation: 2026-03-01 00:04:00 UTC (in 4m), if nothing changes until then:"
        page = await page_of(handle)
        assert "#### Forecast, as asked at 2026-03-01 00:00:00 UTC" in page
        assert page.count("Next consolidation") == 1
        assert all(line in page for line in reply)
        await answer(handle, planner, DisruptionDecision(commands=[EMPTY]))

        async def is_gone() -> bool:
            return "as asked at" not in await page_of(handle)

        await until(is_gone)


class SlowForecaster(Planner):
    """Answers an operator once the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = asyncio.Event()

    @activity.defn(name=ActivityName.FORECAST)
    async def foresee(self, forecast_input: ForecastInput) -> ConsolidationForecast:
        answer = await super().foresee(forecast_input)
        await self.may_answer.wait()
        return answer


async def test_operators_who_ask_at_the_same_time_share_one_search(temporal: WorkflowEnvironment, cluster: str) -> None:
    """A search has a slot of the planner, which plans need too."""
    planner = SlowForecaster()
    planner.forecast = WOULD_ACT
    async with deciding(temporal, cluster, planner) as handle:
        updates = [
            await handle.start_update(
                "forecast", result_type=ForecastAnswer, wait_for_stage=WorkflowUpdateStage.ACCEPTED
            )
            for _ in range(3)
        ]
        planner.may_answer.set()
        replies = [await update.result() for update in updates]
        assert len({tuple(reply.forecast) for reply in replies}) == 1
        assert planner.calls.count(ActivityName.FORECAST.value) == 1
        await handle.execute_update("forecast", result_type=ForecastAnswer)
        assert planner.calls.count(ActivityName.FORECAST.value) == 2


async def test_a_forecast_that_a_command_overtook_is_answered_and_not_shown(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    planner = SlowForecaster()
    planner.forecast = WOULD_ACT
    async with deciding(temporal, cluster, planner) as handle:
        update = await handle.start_update(
            "forecast", result_type=ForecastAnswer, wait_for_stage=WorkflowUpdateStage.ACCEPTED
        )
        planner.decisions.append(DisruptionDecision(commands=[EMPTY]))

        async def started() -> bool:
            return await entry_of(handle, "default-1") is not None

        await until(started)
        planner.may_answer.set()
        assert (await update.result()).forecast[0].startswith("Next consolidation: 2026-03-01 00:04:00 UTC")
        assert "as asked at" not in await page_of(handle)


async def test_an_operator_hears_that_the_worker_gives_no_forecast_and_the_workflow_goes_on(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    planner = Planner()
    planner.forecast = ApplicationError("a method failed", non_retryable=True)
    async with deciding(temporal, cluster, planner) as handle:
        with pytest.raises(WorkflowUpdateFailedError) as failure:
            await handle.execute_update("forecast", result_type=ForecastAnswer)
        assert str(failure.value.cause) == forecast_page.NO_ANSWER
        await answer(handle, planner, DisruptionDecision(commands=[EMPTY]))

        async def started() -> bool:
            return await entry_of(handle, "default-1") is not None

        await until(started)


async def test_nodes_count_for_budgets_after_their_command_has_ended(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    planner = Planner(DisruptionDecision(commands=[EMPTY]))
    async with deciding(temporal, cluster, planner) as handle:

        async def ended() -> bool:
            entry = await entry_of(handle, "default-1")
            return entry is not None and entry.ended

        await until(ended)
        page = await page_of(handle)
        assert "#### Commands that have ended, whose nodes count until they are gone\n\n- `empty-1`: Empty" in page
        assert "- NodePool default: 2 nodes, Empty" in page
        await answer(handle, planner, DisruptionDecision(finished_claims=["default-1", "default-2"]))

        async def forgotten() -> bool:
            return "count until they are gone" not in await page_of(handle)

        await until(forgotten)


async def test_a_command_that_an_operator_terminated_while_it_waited_holds_no_node(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    waiting_command = evolve(DRIFTED, approval=AwaitsApproval(seconds=4 * 86_400.0))
    async with deciding(temporal, cluster, Planner(DisruptionDecision(commands=[waiting_command]))) as handle:

        async def waits() -> bool:
            entry = await entry_of(handle, "default-1")
            return entry is not None and entry.awaits_approval

        await until(waits)
        child = temporal.client.get_workflow_handle(names.command_id(cluster, waiting_command.id))

        async def terminated() -> bool:
            try:
                await child.terminate()
            except RPCError:  # it has not started yet
                return False
            return True

        await until(terminated)

        async def is_free() -> bool:
            return await entry_of(handle, "default-1") is None

        await until(is_free)
        page = await page_of(handle)
    assert "waits for approval" not in page
    assert f"/{waiting_command.id}): ended without a result, as its own page says" in page


async def test_a_run_does_not_continue_as_new_before_its_commands_have_ended(
    temporal: WorkflowEnvironment, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run does not hear of their ends."""
    monkeypatch.setattr(disruption, "MAX_HISTORY", 1)
    planner = Planner(DisruptionDecision(commands=[DRIFTED]))
    planner.waits = "default-new waits for its instance"
    # Without Temporal's sandbox, as in production, the run has the constant of this process's module.
    client = Client(temporal.client.service_client, namespace=temporal.client.namespace, plugins=[TenonPlugin()])
    async with deciding(temporal, cluster, planner, client) as handle:
        first = (await handle.describe()).run_id

        async def started() -> bool:
            return planner.calls.count(ActivityName.AWAIT_REPLACEMENTS.value) > 0

        await until(started)
        await answer(handle, planner, DisruptionDecision())

        async def asked_again() -> bool:
            return len(planner.inputs) > 2

        await until(asked_again)
        assert (await handle.describe()).run_id == first
        child = temporal.client.get_workflow_handle_for(
            DisruptionCommandWorkflow.run, names.command_id(cluster, DRIFTED.id)
        )
        planner.waits = ""
        await child.signal(DisruptionCommandWorkflow.replacement_changed, "default-new")

        async def ended() -> bool:
            return "No command is under way" in await page_of(handle)

        await until(ended)
        await answer(handle, planner, DisruptionDecision())

        async def continued() -> bool:
            return (await handle.describe()).run_id != first

        await until(continued)
        assert "asked 2 nodes to leave" in await page_of(handle)
