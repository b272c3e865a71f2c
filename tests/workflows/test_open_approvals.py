"""What the disruption workflow keeps of commands that wait for a person."""

from __future__ import annotations

import pytest
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment

from tenon.evolve import evolve
from tenon.messages.base import QUIET_POLL_SECONDS
from tenon.messages.command_approval import Refusal
from tenon.messages.disruption import DisruptionDecision
from tests.workflows.approvable_command import ANN, ASKING, EMPTY, waits
from tests.workflows.deciding_planner import Planner, answer, deciding, entry_of
from tests.workflows.running_command import Handle
from tests.workflows.waiting import until
from workflows import names
from workflows.disruption_command import DisruptionCommandWorkflow

pytestmark = pytest.mark.integration


async def test_the_list_of_open_commands_knows_what_waits_was_approved_and_was_refused(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    planner = Planner(DisruptionDecision(commands=[ASKING]))
    planner.waits = "default-new waits for its instance"
    other = evolve(ASKING, id="underutilized-2")
    async with deciding(temporal, cluster, planner) as handle:

        async def waiting() -> bool:
            entry = await entry_of(handle, "default-1")
            return entry is not None and entry.awaits_approval

        await until(waiting)
        entry = await entry_of(handle, "default-1")
        assert entry is not None
        assert (entry.due, entry.is_idle) == (None, True)

        async def asked_again() -> bool:
            return len(planner.inputs) > 1

        await until(asked_again)
        assert planner.inputs[-1].wait_seconds == QUIET_POLL_SECONDS, "a wait for a person costs no calls"
        page = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
        assert "1 command waits for approval" in page.current_details
        child = temporal.client.get_workflow_handle_for(
            DisruptionCommandWorkflow.run, names.command_id(cluster, ASKING.id)
        )
        await waits(child)
        await child.execute_update(DisruptionCommandWorkflow.approve, ANN)

        async def under_way() -> bool:
            return not await waiting()

        await until(under_way)
        entry = await entry_of(handle, "default-1")
        assert entry is not None
        assert (entry.postponed, entry.is_idle) == (False, False)
        await child.cancel()
        await child.result()

        async def said_undone() -> bool:
            page = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
            return f"(workflow {child.id}): undone: an operator cancelled it" in page.current_details

        await until(said_undone)
        await answer(handle, planner, DisruptionDecision(commands=[other]))
        await until(waiting)
        second = temporal.client.get_workflow_handle_for(
            DisruptionCommandWorkflow.run, names.command_id(cluster, other.id)
        )
        await waits(second)
        await second.execute_update(DisruptionCommandWorkflow.refuse, Refusal(by="ann", reason="not now"))

        async def refused() -> bool:
            entry = await entry_of(handle, "default-2")
            return entry is not None and entry.refused == "ann refused it: not now"

        await until(refused)
        entry = await entry_of(handle, "default-2")
        assert entry is not None
        assert (entry.postponed, entry.awaits_approval) == (True, False)


async def test_a_waiting_command_hears_that_its_node_is_gone_or_that_another_command_takes_it(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    second = evolve(ASKING, id="underutilized-2")
    empty = evolve(EMPTY, candidates=EMPTY.candidates[:1], approval=None)
    planner = Planner()
    goes, is_taken = DisruptionDecision(finished_claims=["default-1"]), DisruptionDecision(commands=[empty])
    async with deciding(temporal, cluster, planner) as handle:
        for asking_command, end in ((ASKING, goes), (second, is_taken)):
            ident = asking_command.id
            for decision in (DisruptionDecision(commands=[asking_command]), end):
                await answer(handle, planner, decision)
            child = temporal.client.get_workflow_handle_for(
                DisruptionCommandWorkflow.run, names.command_id(cluster, ident)
            )

            async def ended(child: Handle = child) -> bool:
                try:
                    return (await child.describe()).close_time is not None
                except RPCError:
                    return False

            await until(ended)
            result = await child.result()
            assert result.failure == (
                "it was withdrawn before it was approved: "
                "NodeClaim default-1 is gone, leaves, or does not need it any more"
            )
        entry = await entry_of(handle, "default-1")
        assert entry is not None
        assert (entry.command, entry.postponed) == ("empty-1", False), "the end of the other command does not touch it"
        assert await entry_of(handle, "default-2") is None
