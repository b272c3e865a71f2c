"""How often an EC2NodeClass is resolved again without a poke; a real Temporal server skips the waits."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from temporalio import activity
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from tenon.messages.base import ActivityName
from tenon.messages.nodeclass import NodeClassInput, NodeClassResult
from workflows.nodeclass import REFRESH, REFRESH_DELETING, REFRESH_UNREADY, NodeClassWorkflow

pytestmark = pytest.mark.integration


class Resolver:
    """Resolves a class a few times, then finds it gone."""

    def __init__(self, answer: NodeClassResult) -> None:
        self.answer = answer
        self.requests: list[datetime] = []

    @activity.defn(name=ActivityName.RESOLVE_NODECLASS)
    async def resolve(self, node_class_input: NodeClassInput) -> NodeClassResult:
        self.requests.append(activity.info().scheduled_time)
        return self.answer if len(self.requests) < 3 else NodeClassResult(exists=False)


@pytest.mark.parametrize(
    ("answer", "pause"),
    [
        (NodeClassResult(ready=True), REFRESH),
        (NodeClassResult(ready=False), REFRESH_UNREADY),
        (NodeClassResult(ready=True, deleting=True), REFRESH_DELETING),
    ],
    ids=["ready", "not ready", "being deleted"],
)
async def test_a_class_is_resolved_again_even_if_no_leader_looks_at_it(
    temporal: WorkflowEnvironment, cluster: str, answer: NodeClassResult, pause: timedelta
) -> None:
    resolver = Resolver(answer)
    async with Worker(
        temporal.client, task_queue=cluster, workflows=[NodeClassWorkflow], activities=[resolver.resolve]
    ):
        await temporal.client.execute_workflow(
            NodeClassWorkflow.run,
            NodeClassInput(cluster=cluster, name="default"),
            id=f"nodeclass/{cluster}/default",
            task_queue=cluster,
        )
    first, second, third = resolver.requests
    assert pause <= second - first < pause + timedelta(seconds=30)
    assert pause <= third - second < pause + timedelta(seconds=30)
