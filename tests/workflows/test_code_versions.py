"""A node's workflow under another version of the code, in the plain mode that has no worker versioning."""

from __future__ import annotations

from datetime import datetime

import pytest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.testing import WorkflowEnvironment

from tenon.messages.base import ActivityName, Message
from tenon.messages.node import Disrupt, Poke
from tenon.messages.node_steps import CordonResult, DrainResult, KeepInput
from tenon.node import machine
from tenon.node.leaving_stages import BLOCKED_RETRY
from tenon.node.state import NodeState, Stage
from tenon.node.steps import KeepRecorded, Run, Step
from tests.workflows.fake_activities import FakeWorld
from tests.workflows.guarded_node import GUARDED
from tests.workflows.node_workers import served
from tests.workflows.node_workflow import Handle, at, blocked, live, newest, node, rested
from tests.workflows.waiting import until
from workflows.nodeclaim import NodeClaimWorkflow

pytestmark = pytest.mark.integration

OLD_STEP, OLD_APPLY = machine.next_step, machine.apply


def new_step(state: NodeState, now: datetime) -> Step:
    """A version that asks somebody else whether a node is empty, and that cordons twice before it drains."""
    if state.stage is Stage.CORDONING and state.leave is not None and state.leave.only_if_empty:
        return Run(ActivityName.KEEP, KeepInput(claim=state.claim, until=now), "is it empty?")
    if state.stage is Stage.DRAINING and state.drain_rounds == 0 and not state.blocked:
        return OLD_STEP(state.model_copy(update={"stage": Stage.CORDONING, "check_now": True}), now)
    return OLD_STEP(state, now)


def new_apply(state: NodeState, event: Message, now: datetime) -> NodeState:
    """What belongs to `new_step`."""
    if state.stage is Stage.CORDONING and isinstance(event, KeepRecorded):
        return OLD_APPLY(state, CordonResult(cordoned=False, pods=1), now)
    return OLD_APPLY(state, event, now)


async def failed_tasks(client: Client, workflow_id: str) -> int:
    """How many workflow tasks failed in the newest run."""
    events = [event async for event in client.get_workflow_handle(workflow_id).fetch_history_events()]
    return sum(event.HasField("workflow_task_failed_event_attributes") for event in events)


async def test_a_node_at_rest_passes_to_other_code_and_back(
    temporal: WorkflowEnvironment, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its history is only its state and a timer; what it did before, or was asked in vain, is folded away."""
    world = FakeWorld()
    world.pods_on_cordon = 1
    async with node(temporal, cluster, world, skip_time=False):
        handle = await rested(temporal, cluster)
    for look, step, apply in 2 * [("record keep", new_step, new_apply), ("cordon node", OLD_STEP, OLD_APPLY)]:
        monkeypatch.setattr(machine, "next_step", step)
        monkeypatch.setattr(machine, "apply", apply)
        async with served(temporal.client, cluster, world):
            await handle.signal(NodeClaimWorkflow.poke, Poke(node_name="ip-10-0-0-1", node_ready=True))
            await until(lambda: at(handle, Stage.LIVE))
            await not_empty_after_all(handle, world, look)
            assert await failed_tasks(temporal.client, handle.id) == 0
    async with served(temporal.client, cluster, world):
        await handle.signal(NodeClaimWorkflow.drain)
        assert (await handle.result()).reason == "drain"


async def not_empty_after_all(handle: Handle, world: FakeWorld, look: str) -> None:
    """The node is asked to leave if it is empty, looks, and stays."""
    before = world.calls.count(look)
    await handle.execute_update(NodeClaimWorkflow.disrupt, Disrupt(command="c", reason="Empty", only_if_empty=True))

    async def stayed() -> bool:
        return world.calls.count(look) > before and await at(handle, Stage.LIVE)

    await until(stayed)


async def test_workflows_that_other_code_left_in_the_middle_end_and_can_start_again(
    temporal: WorkflowEnvironment, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drain that this code would have begun otherwise: the workflow closes, without one failed task after another."""
    world = FakeWorld()
    world.drains = [DrainResult(remaining=1, blocked=[GUARDED])]
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        await handle.signal(NodeClaimWorkflow.drain)
        await until(lambda: blocked(handle))
    monkeypatch.setattr(machine, "next_step", new_step)
    async with served(temporal.client, cluster, world):
        await temporal.fast_forward(newest(temporal.client, cluster), 2 * BLOCKED_RETRY)
        with pytest.raises(WorkflowFailureError):
            await newest(temporal.client, cluster).result()
    assert (await handle.describe()).status is WorkflowExecutionStatus.FAILED
    assert await failed_tasks(temporal.client, handle.id) == 0
