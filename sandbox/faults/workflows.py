"""Operations that a user may do to a node's workflow with Temporal's own tools."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError

from sandbox.cluster import Sandbox
from sandbox.errors import SandboxError
from sandbox.faults.registry import Done, fault
from workflows.names import nodeclaim_id

REASON = "a fault of the sandbox"
Claim = Annotated[str, "Name of the NodeClaim."]
Handle = WorkflowHandle[Any, Any]


@fault("workflow-terminated", heal=None)
def terminated(sandbox: Sandbox, claim: Claim) -> Done:
    """A node's workflow is terminated."""
    return _act(sandbox, claim, lambda _, handle: handle.terminate(reason=REASON))


@fault("workflow-cancelled", heal=None)
def cancelled(sandbox: Sandbox, claim: Claim) -> Done:
    """A node's workflow is cancelled."""
    return _act(sandbox, claim, lambda _, handle: handle.cancel())


@fault("workflow-reset", heal=None)
def reset(
    sandbox: Sandbox,
    claim: Claim,
    task: Annotated[int, "Which workflow task of the run: 0 the first, -1 the last."] = 0,
) -> Done:
    """A node's workflow is reset to a workflow task of its run."""

    async def act(client: Client, handle: Handle) -> None:
        run_id = (await handle.describe()).run_id
        history = await client.get_workflow_handle(handle.id, run_id=run_id).fetch_history()
        done = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
        tasks = [event.event_id for event in history.events if event.event_type == done]
        try:
            selection = tasks[task]
        except IndexError as error:
            raise SandboxError(
                f"The run of {handle.id} has {len(tasks)} workflow tasks: there is no {task}."
            ) from error
        await client.workflow_service.reset_workflow_execution(
            ResetWorkflowExecutionRequest(
                namespace=client.namespace,
                workflow_execution=WorkflowExecution(workflow_id=handle.id, run_id=run_id),
                reason=REASON,
                workflow_task_finish_event_id=selection,
                request_id=str(uuid.uuid4()),
            )
        )

    return _act(sandbox, claim, act)


def _act(sandbox: Sandbox, claim: str, act: Callable[[Client, Handle], Awaitable[None]]) -> Done:
    workflow = nodeclaim_id(sandbox.cluster_name, claim)

    async def connected() -> str:
        client = await Client.connect(sandbox.temporal_address)
        handle = client.get_workflow_handle(workflow)
        run_id = (await handle.describe()).run_id
        await act(client, handle)
        return run_id

    try:
        return [{"workflow": workflow, "run": asyncio.run(connected())}]
    except (RPCError, RuntimeError) as error:
        raise SandboxError(f"The workflow {workflow} could not be changed: {error}.") from error
