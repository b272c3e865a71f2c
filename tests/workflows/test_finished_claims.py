"""What the disruption workflow does with nodes whose commands are over, as the planner says."""

from __future__ import annotations

import pytest
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from tenon.apis.reasons import Reason
from tenon.evolve import evolve
from tenon.messages.disruption import DisruptionDecision, Postponement
from tests.workflows.deciding_planner import Planner
from tests.workflows.fake_steps import command
from tests.workflows.waiting import until
from workflows import names
from workflows.disruption import DisruptionInput, DisruptionWorkflow
from workflows.disruption_command import DisruptionCommandWorkflow

pytestmark = pytest.mark.integration

DRIFTED = evolve(command(graceful=False), id="drifted-1", reason=Reason.DRIFTED, predicted=0.0)


async def test_a_node_whose_command_fails_while_the_planner_says_that_it_is_over_is_left_alone(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """A failed command gives up its nodes before it reports its failure, and the workflow may hear of both at once."""
    planner = Planner(DisruptionDecision(commands=[DRIFTED]))
    queue = names.task_queue(cluster)
    # Nothing validates the command, so it stays as it is.
    planning = Worker(temporal.client, task_queue=names.plan_queue(cluster), activities=[planner.decide])

    def workflows() -> Worker:
        return Worker(
            temporal.client,
            task_queue=queue,
            workflows=[DisruptionWorkflow, DisruptionCommandWorkflow],
            activities=planner.common(),
            max_cached_workflows=0,  # the next worker gets its tasks at once
        )

    with temporal.with_time_skipping_disabled():
        async with planning:
            handle = await temporal.client.start_workflow(
                DisruptionWorkflow.run,
                DisruptionInput(cluster=cluster),
                id=names.disruption_id(cluster),
                task_queue=queue,
            )

            async def asked_of_the_command() -> bool:
                return len(planner.inputs) == 2

            async def answered() -> bool:
                return not (await handle.describe()).raw_description.pending_activities

            async def asked_again() -> bool:
                return len(planner.inputs) == 3

            async with workflows():
                await until(asked_of_the_command)
            failure = Postponement(claims=["default-1"], seconds=300, command=DRIFTED.id, undone="no luck")
            await handle.signal(DisruptionWorkflow.postpone, failure)
            planner.decisions.append(DisruptionDecision(finished_claims=["default-1", "default-2"]))
            await until(answered)
            async with workflows():
                await until(asked_again)
            await handle.terminate()
    assert [(claim, entry.postponed) for claim, entry in planner.inputs[-1].ledger.items()] == [("default-1", True)]
