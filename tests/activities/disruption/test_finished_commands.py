"""When the planner answers that the node of a command is gone; the loop's clock jumps instead of passing."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from tenon.evolve import evolve
from tenon.messages.disruption import OpenCommand
from tests.activities.disruption.disruption_setting import QUESTION, Setting, managed
from tests.activities.provisioning.fake_view import START

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]


def under_way(command: str) -> OpenCommand:
    return OpenCommand(
        command=command, reason="Drifted", pool="default", until=START + timedelta(hours=1), since=START, ended=True
    )


async def test_the_end_of_the_last_command_ends_the_call() -> None:
    """The workflow then waits for an hour instead of ten minutes."""
    at = Setting(managed("a", empty=False, leaving=True))

    def go() -> None:
        at.view.managed = []
        at.view.publish()

    asyncio.get_running_loop().call_later(60.0, go)
    decision = await at.disruptor.await_candidates(evolve(QUESTION, ledger={"a": under_way("drifted-1")}))
    assert decision.finished_claims == ["a"]
    assert at.seconds() < 90


async def test_the_end_of_another_command_is_said_when_the_call_ends() -> None:
    """It costs no call, because budgets know of it anyway."""
    at = Setting(managed("a", empty=False, leaving=True))
    ledger = {"a": under_way("drifted-1"), "b": under_way("drifted-2")}
    decision = await at.disruptor.await_candidates(evolve(QUESTION, ledger=ledger))
    assert decision.finished_claims == ["b"]
    assert at.seconds() >= QUESTION.wait_seconds
