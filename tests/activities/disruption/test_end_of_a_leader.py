"""What a leader that ends leaves undone: the next one reports the same, and knows more."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from activities.disruption.situation_reporting import SituationReporter
from tenon.evolve import evolve
from tenon.messages.disruption import OpenCommand
from tests.activities.disruption.disruption_setting import QUESTION, Setting, managed
from tests.activities.node.fake_kube import Recorder
from tests.activities.provisioning.fake_view import START

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]


class SlowRecorder(Recorder):
    """Writes each event a minute after it was asked to."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: set[tuple[str, str]] = set()
        """What the events are about that it was asked to write, and their reasons."""

    async def publish(self, regarding: Any, reason: Any, message: str, *arguments: Any, **options: Any) -> bool:
        self.begun.add((regarding["kind"], reason))
        await asyncio.sleep(60)
        return await super().publish(regarding, reason, message, *arguments, **options)


async def test_events_about_budgets_held_nodes_and_approvals_are_given_up() -> None:
    at, recorder = Setting(managed("a", protected_by="it"), managed("b"), budgets=[{"nodes": "0"}]), SlowRecorder()
    at.disruptor._reporter = SituationReporter(at.view, recorder)
    open_command = OpenCommand(
        command="empty-1",
        reason="Empty",
        pool="default",
        since=START,
        until=START + timedelta(hours=1),
        awaits_approval=True,
    )
    await at.disruptor.await_candidates(evolve(QUESTION, wait_seconds=1.0, ledger={"b": open_command}))
    await asyncio.sleep(0)
    assert recorder.begun == {
        ("NodePool", "DisruptionBlocked"),
        ("NodeClaim", "DisruptionBlocked"),
        ("NodeClaim", "DisruptionAwaitsApproval"),
    }
    at.disruptor.close()
    await asyncio.sleep(3600)
    assert recorder.events == []
