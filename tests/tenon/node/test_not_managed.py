"""The workflow of a NodeClaim that a step calls another controller's ends and does nothing more (NC-07)."""

from __future__ import annotations

import pytest

from tenon.messages.base import ActivityName
from tenon.node import machine
from tenon.node.state import Blocked, NodeState, Stage
from tenon.node.steps import End, Failed
from tests.tenon.node.launched import INSTANCE, NOW, REF

REFUSED = Failed(activity=ActivityName.CORDON, message="it is left alone", not_managed=True)


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage is not Stage.ENDED])
def test_nc07_in_every_stage_the_life_ends_without_another_step(stage: Stage) -> None:
    state = NodeState(claim=REF, stage=stage, instance=INSTANCE, registered=True, blocked=Blocked(message="waits"))
    ended = machine.apply(state, REFUSED, NOW)
    assert isinstance(machine.next_step(ended, NOW), End)
    assert (ended.leave, ended.blocked) == (None, None)
    assert "another controller's" in ended.timeline[-1].text
