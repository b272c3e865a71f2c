"""A disruption taint that nothing follows is removed by the node's own workflow (DIS-66); why pods are drained."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tenon.messages.base import ActivityName
from tenon.messages.node import Poke
from tenon.messages.node_steps import DrainInput
from tenon.node import cordon, machine
from tenon.node.next_step import EXPIRES
from tenon.node.state import Leave, NodeState, Stage
from tenon.node.steps import Failed, LeaveRequest, Run, Wait, Withdrawn
from tests.tenon.node.launched import INSTANCE, NOW, REF

LIVE = NodeState(claim=REF, stage=Stage.LIVE, instance=INSTANCE, node_name="n1", initialized=True)
TAINTED = Poke(node_name="n1", disrupted=True)


def test_dis66_a_live_node_loses_the_taint_and_goes_on() -> None:
    expires_at = NOW + timedelta(hours=1)
    state = machine.apply(LIVE.model_copy(update={"expires_at": expires_at}), TAINTED, NOW)
    step = machine.next_step(state, NOW)
    assert isinstance(step, Run)
    assert step.activity is ActivityName.WITHDRAW
    state = machine.apply(state, Withdrawn(removed=True), NOW)
    assert machine.next_step(state, NOW) == Wait(expires_at, EXPIRES)
    assert state.timeline[-1].text == "removed a disruption taint that no command followed"


def test_dis66_a_taint_that_went_by_itself_is_not_recorded() -> None:
    assert machine.apply(machine.apply(LIVE, TAINTED, NOW), Withdrawn(), NOW) == LIVE


def test_dis66_a_taint_that_cannot_be_removed_holds_up_nothing_else() -> None:
    """The next sweep signals a taint that is still there. One that an operator removed meanwhile must block no node."""
    expires_at = NOW + timedelta(hours=1)
    state = machine.apply(LIVE.model_copy(update={"expires_at": expires_at}), TAINTED, NOW)
    state = machine.apply(state, Failed(activity=ActivityName.WITHDRAW, message="denied"), NOW)
    assert machine.next_step(state, NOW) == Wait(expires_at, EXPIRES)
    assert (state.blocked, state.failures) == (None, 0)
    assert state.timeline[-1].text == "remove disruption taint failed: denied"
    step = machine.next_step(machine.apply(state, TAINTED, NOW), NOW)
    assert isinstance(step, Run)
    assert step.activity is ActivityName.WITHDRAW


def test_dis66_a_node_that_is_asked_to_leave_meanwhile_keeps_its_taint() -> None:
    state = machine.apply(machine.apply(LIVE, TAINTED, NOW), LeaveRequest(reason="drain"), NOW)
    step = machine.next_step(state, NOW)
    assert isinstance(step, Run)
    assert step.activity is ActivityName.CORDON


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage is not Stage.LIVE])
def test_dis66_a_node_that_is_not_live_minds_no_taint(stage: Stage) -> None:
    """One that starts hears of it again once it is live; of one that leaves the taint is its own."""
    state = LIVE.model_copy(update={"stage": stage})
    assert machine.apply(state, TAINTED, NOW) == state


@pytest.mark.parametrize(
    ("reason", "events"),
    [("Empty", "Empty"), ("drifted", "Drifted"), ("expired", cordon.FORCEFUL), ("", cordon.FORCEFUL)],
)
def test_met27_drained_pods_are_counted_by_the_disruption_that_moved_them(reason: str, events: str) -> None:
    assert cordon.drain_reason(reason) == events
    leaving = LIVE.model_copy(update={"stage": Stage.DRAINING, "leave": Leave(reason=reason, asked_at=NOW)})
    step = machine.next_step(leaving, NOW)
    assert isinstance(step, Run)
    assert isinstance(step.input, DrainInput)
    assert step.input.reason == reason
