"""What nodes' workflows answer to a disruption command, asked by the activity on a real Temporal server."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from temporalio.client import Client
from temporalio.testing import ActivityEnvironment, WorkflowEnvironment

from activities.disruption.ask_to_leave import disrupt
from tenon.apis.reasons import Reason
from tenon.messages.command_steps import DisruptInput
from tenon.messages.disruption import DisruptionCandidate, DisruptionCommand, DisruptResult
from tenon.node.state import Stage
from tests.workflows.fake_activities import FakeWorld
from tests.workflows.node_workflow import at, live, newest, node
from tests.workflows.waiting import until
from workflows.nodeclaim import NodeClaimWorkflow

pytestmark = pytest.mark.integration

CLAIM = "default-x1"


async def ask(client: Client, disrupt_input: DisruptInput, run: str) -> DisruptResult:
    """The answers to a command whose workflow has this run ID."""
    environment = ActivityEnvironment(client=client)
    environment.info = replace(environment.info, workflow_run_id=run)
    result: DisruptResult = await environment.run(disrupt, disrupt_input)
    return result


async def test_a_command_that_a_node_refused_gets_a_new_answer_when_it_is_started_again(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """An empty node gets the same command again: it is empty since the same time. A retry gets the same answer."""
    now = datetime.now(UTC)
    candidate = DisruptionCandidate(claim=CLAIM, uid="u1", pool="default", since=now)
    command = DisruptionCommand(id="empty-1", reason=Reason.EMPTY, candidates=[candidate], only_if_empty=True)
    disrupt_input = DisruptInput(cluster=cluster, command=command)
    async with node(temporal, cluster, FakeWorld(), skip_time=False):
        handle = newest(temporal.client, cluster)
        await until(lambda: at(handle, Stage.REGISTERING))
        refused = await ask(temporal.client, disrupt_input, "first")
        assert refused.refused == {CLAIM: "not live yet: registering"}
        await live(temporal.client, cluster)
        assert await ask(temporal.client, disrupt_input, "first") == refused
        for _ in range(2):
            assert (await ask(temporal.client, disrupt_input, "second")).accepted == [CLAIM]
        await handle.signal(NodeClaimWorkflow.force_drain)
        await handle.result()
