"""Who cancels a run: an operator, whose wish it takes, or the worker, which evicts it from its cache."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tenon.apis.reasons import Reason
from tenon.messages.base import ClaimRef
from tenon.messages.command_steps import DisruptInput
from tenon.messages.disruption import DisruptionCommand
from tenon.node.state import NodeClaimInput, NodeState, Stage
from tests.activities.node.fake_kube import START
from workflows import (
    activity_calls,
    command_approval,
    command_run,
    continuing,
    disruption_command,
    nodeclaim,
    planner_call,
)
from workflows.disruption_command import DisruptionCommandWorkflow
from workflows.nodeclaim import NodeClaimWorkflow

CLAIM = ClaimRef(cluster="sandbox", name="web-1", uid="uid-web-1")


class Runtime(SimpleNamespace):
    """What a run asks of Temporal. Activities and timers never end."""

    def __init__(self) -> None:
        info = SimpleNamespace(
            first_execution_run_id="r",
            start_time=START,
            task_queue="tenon-sandbox",
            is_continue_as_new_suggested=lambda: False,
            get_current_history_length=lambda: 20,
            is_target_worker_deployment_version_changed=lambda: False,
        )
        super().__init__(
            info=lambda: info,
            now=lambda: START,
            logger=SimpleNamespace(info=lambda *_, **__: None),
            set_current_details=lambda _: None,
            upsert_search_attributes=lambda _: None,
        )
        self.reason: str | None = None
        self.started: list[str] = []

    def cancellation_reason(self) -> str | None:
        """None, unless an operator has ever cancelled the workflow."""
        return self.reason

    async def wait_condition(self, condition: Callable[[], bool], **_: Any) -> None:
        while not condition():  # noqa: ASYNC110 - a condition has no event
            await asyncio.sleep(0)

    def start_activity(self, name: str, *_: Any, **__: Any) -> asyncio.Future[None]:
        self.started.append(name)
        return asyncio.get_running_loop().create_future()


class Begun:
    """A run of a node at rest, or of a command that is being validated."""

    def __init__(self, runtime: Runtime, workflow: Any, value: Any) -> None:
        self.runtime = runtime
        self.workflow = workflow
        self.before = asyncio.all_tasks()
        self.run = asyncio.create_task(workflow.run(value))

    async def settles(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    def wishes(self) -> list[str]:
        """What the run does, or will do, because it was cancelled."""
        if isinstance(self.workflow, DisruptionCommandWorkflow):
            return ["undo"] if self.workflow.cancelled else []
        return [type(event).__name__ for event in self.workflow.inbox] + self.runtime.started

    async def cancelled_by_operator(self) -> None:
        self.runtime.reason = "by hand"
        self.run.cancel()
        await self.settles()

    async def evicted(self) -> None:
        """As Temporal's SDK does it: it cancels all tasks of the workflow and expects that none is left."""
        tasks = asyncio.all_tasks() - {*self.before, asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


@pytest.fixture(params=["node", "command"])
async def begun(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Begun:
    runtime = Runtime()
    for module in (
        activity_calls,
        nodeclaim,
        continuing,
        disruption_command,
        command_run,
        command_approval,
        planner_call,
    ):
        monkeypatch.setattr(module, "workflow", runtime)
    if request.param == "node":
        begin = NodeClaimInput(claim=CLAIM, pool="web", state=NodeState(claim=CLAIM, stage=Stage.LIVE))
        begun = Begun(runtime, NodeClaimWorkflow(begin), begin)
    else:
        expectation = DisruptionCommand(
            id="drifted-1", reason=Reason.DRIFTED, candidates=[], moves_pods=True, graceful=False
        )
        disrupt_input = DisruptInput(cluster="sandbox", command=expectation)
        begun = Begun(runtime, DisruptionCommandWorkflow(disrupt_input), disrupt_input)
    await begun.settles()
    return begun


async def test_a_cancellation_without_a_reason_ends_a_run_and_asks_for_nothing(begun: Begun) -> None:
    """It is the worker's. Otherwise nodes would drain that a worker cannot keep in its cache."""
    begun.run.cancel()
    await begun.settles()
    assert begun.wishes() == []
    assert begun.run.cancelled()


async def test_a_run_that_an_operator_cancelled_can_still_be_evicted(begun: Begun) -> None:
    """Its reason stays. A task that does not end would hold the worker's thread for ever."""
    await begun.cancelled_by_operator()
    assert begun.wishes() in (["undo"], ["cordon node"])
    assert not begun.run.done()
    await begun.evicted()
    assert begun.run.cancelled()
