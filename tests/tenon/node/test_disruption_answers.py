"""Whether a node accepts a disruption command, and that it stays if it does not."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tenon.messages.base import ClaimRef
from tenon.messages.node import Disrupt
from tenon.messages.node_steps import CordonInput
from tenon.node.disruption_requests import answer, disrupted
from tenon.node.next_step import next_step
from tenon.node.state import Leave, NodeState, Stage
from tenon.node.steps import Run
from tests.activities.node.fake_kube import START

COMMAND = Disrupt(command="c-1", reason="Empty")


def node(**fields: Any) -> NodeState:
    value: dict[str, Any] = {"stage": Stage.LIVE, **fields}
    return NodeState(claim=ClaimRef(cluster="sandbox", name="web-1", uid="u"), **value)


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (node(stage=Stage.INITIALIZING), "not live yet: initializing"),
        (node(keep_until=START + timedelta(seconds=1)), "kept until"),
        (node(stage=Stage.DRAINING, leave=Leave(reason="drain", asked_at=START)), "already leaving: Drain"),
    ],
)
def test_a_node_that_refuses_a_command_says_why_and_stays(state: NodeState, why: str) -> None:
    refused = answer(state, COMMAND, START)
    assert not refused.accepted
    assert why in refused.why
    assert refused.leaving is state.stage.leaving
    assert disrupted(state, COMMAND, START) == state


@pytest.mark.parametrize("state", [node(), node(keep_until=START)])
def test_a_live_node_accepts_a_command(state: NodeState) -> None:
    """Also when the time for which it was kept is over."""
    assert answer(state, COMMAND, START).accepted
    assert disrupted(state, COMMAND, START).stage is Stage.CORDONING


@pytest.mark.parametrize(
    ("state", "accepted"),
    [
        (node(), True),
        (node(stage=Stage.INITIALIZING), True),
        (node(stage=Stage.BINDING), True),
        (node(stage=Stage.REGISTERING), False),
        (node(keep_until=START + timedelta(hours=1)), True),
        (node(stage=Stage.DRAINING, leave=Leave(reason="drain", asked_at=START)), False),
    ],
)
def test_n15_122_repair_removes_a_node_that_never_initializes_and_one_that_is_kept(
    state: NodeState, accepted: bool
) -> None:
    command = Disrupt(command="c-1", reason="Unhealthy", drain_seconds=300.0, fault="StorageReady")
    assert answer(state, command, START).accepted is accepted
    after = disrupted(state, command, START)
    assert (after.stage is Stage.CORDONING) is accepted
    if accepted:
        step = next_step(after, START)
        assert isinstance(step, Run)
        assert isinstance(step.input, CordonInput)
        assert step.input.termination_timestamp == START + timedelta(minutes=5)
        assert step.input.fault == "StorageReady"
