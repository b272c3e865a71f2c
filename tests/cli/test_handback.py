"""``tenon handback`` against a real Temporal server: which workflows it ends, and which it leaves alone."""

from __future__ import annotations

import pytest
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment

from cli.handback import end_workflows
from worker.housekeeping import ensure_schedule
from workflows import names
from workflows.housekeeping import schedule_id


async def test_every_workflow_of_the_cluster_ends_and_none_of_another(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """Also a command's, which carries no cluster's name but in its id; the Schedule goes, so that none comes again."""
    client, other = temporal.client, f"{cluster}-2"
    for name in (cluster, other):
        for kind, workflow_id in (
            ("NodeClaim", names.nodeclaim_id(name, "default-x1")),
            ("Provisioner", names.provisioner_id(name)),
            ("DisruptionCommand", names.command_id(name, "7")),
        ):
            await client.start_workflow(kind, id=workflow_id, task_queue=names.task_queue(name))
        await ensure_schedule(client, name)
    assert await end_workflows(client, cluster) == 3
    assert await end_workflows(client, cluster) == 0, "to hand back twice is harmless"
    left = {each.id async for each in client.list_workflows("ExecutionStatus = 'Running'")}
    assert not {workflow_id for workflow_id in left if cluster in workflow_id and other not in workflow_id}
    assert names.nodeclaim_id(other, "default-x1") in left
    with pytest.raises(RPCError, match="not found"):
        await client.get_schedule_handle(schedule_id(cluster)).describe()
    ended = await client.get_workflow_handle(names.command_id(cluster, "7")).describe()
    assert ended.status is WorkflowExecutionStatus.TERMINATED
    await end_workflows(client, other)
