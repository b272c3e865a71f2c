"""A workflow of another controller's NodeClaim, begun by an earlier version, ends and does nothing more (NC-07)."""

from __future__ import annotations

import pytest

from tenon.lifecycle import machine
from tenon.lifecycle.messages.base import ActivityName, Message
from tenon.lifecycle.messages.node import Poke
from tenon.lifecycle.state import Blocked, NodeState, Stage
from tenon.lifecycle.steps import End, Failed
from tests.lifecycle.launched import INSTANCE, NOW, REF

TOLD = [
    Poke(not_managed=True),
    Failed(activity=ActivityName.CORDON, message="it is left alone", not_managed=True),
]


@pytest.mark.parametrize("told", TOLD)
@pytest.mark.parametrize("stage", [stage for stage in Stage if stage is not Stage.ENDED])
def test_nc07_in_every_stage_the_life_ends_without_another_step(stage: Stage, told: Message) -> None:
    state = NodeState(claim=REF, stage=stage, instance=INSTANCE, registered=True, blocked=Blocked(message="waits"))
    ended = machine.apply(state, told, NOW)
    assert isinstance(machine.next_step(ended, NOW), End)
    assert (ended.leave, ended.blocked) == (None, None)
    assert "another controller's" in ended.timeline[-1].text
