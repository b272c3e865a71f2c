"""A leader that loses its Lease ends what it does in the background."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from worker.controllers.interruption.scheduled_changes import ScheduledChangeLimit
from worker.runtime.leader import leader


@pytest.mark.asyncio(loop_scope="function")
async def test_what_plans_and_what_disrupts_end_with_the_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    planning = SimpleNamespace(planner=SimpleNamespace(close=lambda: closed.append("planner")))
    disruption = SimpleNamespace(disruptor=SimpleNamespace(close=lambda: closed.append("disruptor")))
    monkeypatch.setattr(leader, "plan_parts", lambda *_: planning)
    monkeypatch.setattr(leader, "disruption_parts", lambda *_: disruption)
    monkeypatch.setattr(leader, "_controllers", lambda *_: [])

    async def nothing(*_: Any) -> None:
        return

    monkeypatch.setattr(leader, "serve_legacy", nothing)
    monkeypatch.setattr(leader, "warn_of_disabled_gates", nothing)
    serving = asyncio.Event()

    async def serve(_: Any) -> None:
        serving.set()
        await asyncio.Event().wait()

    settings = SimpleNamespace(feature_gates=None, disable_cluster_state_observability=True)
    clients = SimpleNamespace(kube=None, recorder=None, ec2=SimpleNamespace(cluster=None))
    lead = asyncio.create_task(
        leader.lead(
            cast("Any", settings),
            cast("Any", SimpleNamespace(serve=serve)),
            cast("Any", clients),
            cast("Any", None),
            ScheduledChangeLimit(cast("Any", None)),
        )
    )
    await serving.wait()
    lead.cancel()
    await asyncio.wait([lead])
    assert closed == ["planner", "disruptor"]
