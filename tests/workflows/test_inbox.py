"""Messages that arrive while a run cannot act on them: none is lost, and each answer holds when they are applied."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tenon.messages.base import ClaimRef
from tenon.messages.launch import Instance
from tenon.messages.node import Disrupt, DisruptAnswer
from tenon.messages.node_steps import BindResult
from tenon.node.state import NodeClaimInput, NodeState, Stage
from tests.activities.node.fake_kube import START
from workflows import activity_calls, continuing, nodeclaim
from workflows.nodeclaim import MAX_HISTORY, NodeClaimWorkflow

REF = ClaimRef(cluster="sandbox", name="web-1", uid="uid-web-1")
INSTANCE = Instance(
    id="i-1",
    provider_id="aws:///us-west-2a/i-1",
    instance_type="m5.large",
    zone="us-west-2a",
    capacity_type="on-demand",
    image_id="ami-1",
    price=0.1,
)


class ContinuedError(Exception):
    """The run continued as new."""


class RanError(Exception):
    """The run started an activity."""


class WaitsError(Exception):
    """The run waits for so long."""


class Runtime(SimpleNamespace):
    """What a run asks of Temporal. ``arrives`` happens while the run waits for its handlers."""

    def __init__(self, history: int) -> None:
        info = SimpleNamespace(
            first_execution_run_id="r",
            start_time=START,
            task_queue="tenon-sandbox",
            is_continue_as_new_suggested=lambda: False,
            get_current_history_length=lambda: history,
            is_target_worker_deployment_version_changed=lambda: False,
        )
        super().__init__(
            info=lambda: info,
            now=lambda: START,
            patched=lambda _: True,
            logger=SimpleNamespace(info=lambda *_, **__: None),
            set_current_details=lambda _: None,
            upsert_search_attributes=lambda _: None,
            all_handlers_finished=lambda: True,
        )
        self.arrives: Callable[[], None] | None = None

    async def wait_condition(self, condition: Callable[[], bool], **_: Any) -> None:
        if condition is self.all_handlers_finished and self.arrives is not None:
            arrives, self.arrives = self.arrives, None
            arrives()

    def continue_as_new(self, *_: Any, **__: Any) -> None:
        raise ContinuedError

    def start_activity(self, name: str, *_: Any, **__: Any) -> None:
        raise RanError(name)


def run(monkeypatch: pytest.MonkeyPatch, state: NodeState, history: int) -> tuple[NodeClaimWorkflow, NodeClaimInput]:
    """A run that gets the signal ``drain`` while it waits for its handlers."""
    begin = NodeClaimInput(claim=REF, pool="web", state=state)
    runtime = Runtime(history)
    for module in (activity_calls, nodeclaim, continuing):
        monkeypatch.setattr(module, "workflow", runtime)
    node = NodeClaimWorkflow(begin)
    runtime.arrives = node.drain
    return node, begin


async def test_a_drain_is_not_lost_while_a_run_with_a_long_history_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = NodeState(claim=REF, stage=Stage.REGISTERING, instance=INSTANCE, deadline=START + timedelta(minutes=15))
    node, begin = run(monkeypatch, waits, MAX_HISTORY + 1)
    with pytest.raises(ContinuedError):
        await node._live(begin)
    assert not node.inbox
    assert node.state.leave is not None
    assert node.state.leave.reason == "drain"


async def test_a_drain_is_not_lost_while_the_run_of_a_live_node_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    node, begin = run(monkeypatch, NodeState(claim=REF, stage=Stage.LIVE, instance=INSTANCE), 20)
    node.acted = True
    with pytest.raises(RanError, match="cordon node"):
        await node._live(begin)
    assert node.state.leave is not None


async def test_a_run_with_a_long_history_continues_as_new(monkeypatch: pytest.MonkeyPatch) -> None:
    node, begin = run(monkeypatch, NodeState(claim=REF, stage=Stage.CORDONING, instance=INSTANCE), MAX_HISTORY + 1)
    nodeclaim.workflow.arrives = None  # type: ignore[attr-defined]
    with pytest.raises(ContinuedError):
        await node._live(begin)


def answer_to(node: NodeClaimWorkflow, command: Disrupt) -> DisruptAnswer:
    """What the node answers to a command in this moment."""
    answer: DisruptAnswer = cast("Any", node).disrupt(command.model_dump(mode="json"))
    return answer


async def test_dis_64_a_command_that_was_refused_is_not_carried_out_when_the_node_is_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The answer came while pods were bound. The command counts on it, and looks at the node again later."""
    node, _ = run(monkeypatch, NodeState(claim=REF, stage=Stage.BINDING, instance=INSTANCE), 20)
    answer = answer_to(node, Disrupt(command="c1", reason="Underutilized"))
    assert (answer.accepted, answer.why) == (False, "not live yet: binding")
    node._apply(BindResult())
    node._take_inbox()
    assert (node.state.stage, node.state.leave) == (Stage.LIVE, None)


async def test_dis_64_of_two_commands_that_arrive_together_the_second_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The node has not acted on the first. Both would count on the node, and only one of them gets it."""
    node, _ = run(monkeypatch, NodeState(claim=REF, stage=Stage.LIVE, instance=INSTANCE), 20)
    assert answer_to(node, Disrupt(command="c1", reason="Empty")).accepted
    second = answer_to(node, Disrupt(command="c2", reason="Underutilized"))
    assert (second.accepted, second.why) == (False, "already leaving: Empty (command c1)")


async def test_dis_64_a_command_that_arrives_after_a_request_to_drain_hears_that_the_node_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node, _ = run(monkeypatch, NodeState(claim=REF, stage=Stage.LIVE, instance=INSTANCE), 20)
    node.drain()
    answer = answer_to(node, Disrupt(command="c1", reason="Underutilized"))
    assert (answer.accepted, answer.leaving) == (False, True)
