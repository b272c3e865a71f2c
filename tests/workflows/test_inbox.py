"""A message that arrives while a run waits for its handlers, just before it continues as new, is not lost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from tenon.lifecycle.messages.base import ClaimRef
from tenon.lifecycle.messages.launch import Instance
from tenon.lifecycle.state import NodeClaimInput, NodeState, Stage
from tests.lifecycle_k8s.fake_kube import START
from workflows import nodeclaim
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


class Runtime(SimpleNamespace):
    """What a run asks of Temporal. ``arrives`` happens while the run waits for its handlers."""

    def __init__(self, history: int) -> None:
        info = SimpleNamespace(
            first_execution_run_id="r",
            start_time=START,
            task_queue="tenon-sandbox",
            is_continue_as_new_suggested=lambda: False,
            get_current_history_length=lambda: history,
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

    def continue_as_new(self, *_: Any) -> None:
        raise ContinuedError

    def start_activity(self, name: str, *_: Any, **__: Any) -> None:
        raise RanError(name)


def run(monkeypatch: pytest.MonkeyPatch, state: NodeState, history: int) -> tuple[NodeClaimWorkflow, NodeClaimInput]:
    """A run that gets the signal ``drain`` while it waits for its handlers."""
    begin = NodeClaimInput(claim=REF, pool="web", state=state)
    runtime = Runtime(history)
    monkeypatch.setattr(nodeclaim, "workflow", runtime)
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
