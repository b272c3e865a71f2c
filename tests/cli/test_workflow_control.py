"""What `tenon top` asks of Temporal, and the wishes that its keys send, against a real Temporal server."""

from __future__ import annotations

from datetime import timedelta

import pytest
from temporalio.testing import WorkflowEnvironment

from activities.clock import utc_now
from cli.fleet_view.workflow_control import KEEP_FOR, ControlError, WorkflowControl
from tenon.apis.reasons import camel_case
from tests.cli.nodes.blocked_node import NAME, blocked, listed
from tests.cli.test_disruptions import running
from tests.workflows.fake_steps import FakeSteps, command
from tests.workflows.guarded_node import BUDGET, Guarded, state_of
from tests.workflows.node_workflow import Handle
from tests.workflows.waiting import PATIENCE, until

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporal gets as long for an answer as a busy machine takes for it."""
    for limit in ("ANSWER_SECONDS", "COMMAND_SECONDS"):
        monkeypatch.setattr(f"cli.fleet_view.workflow_control.{limit}", PATIENCE.total_seconds())
    monkeypatch.setattr("cli.command_reading.QUERY_TIMEOUT", PATIENCE)


async def test_keep_and_drain_say_who_asked_and_a_blocked_node_is_listed(
    temporal: WorkflowEnvironment, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal.client.service_client.config.target_host)
    control = WorkflowControl(cluster)
    with pytest.raises(ControlError, match=f"The workflow of {NAME} does not answer"):
        await control.drain(NAME)
    async with listed(temporal, cluster, Guarded(grace=timedelta(days=2))) as handle:
        now = utc_now()
        assert await control.keep(NAME, now) == f"{NAME}: kept until {now + KEEP_FOR:%Y-%m-%d %H:%M:%S} UTC"
        await until(lambda: said(handle, "kept"))
        assert await control.blocked() == frozenset()
        assert await control.drain(NAME, "old disk") == f"{NAME}: draining"
        await until(lambda: blocked(temporal.client, cluster))
        assert await control.blocked() == {NAME}
        details = await control.details(NAME)
    assert BUDGET in details
    assert "with tenon top" in details
    assert "old disk" in details


async def test_commands_under_way_say_what_they_wait_for_and_what_they_save(
    temporal: WorkflowEnvironment, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal.client.service_client.config.target_host)
    control, steps = WorkflowControl(cluster), FakeSteps()
    steps.waits = "default-new is not initialized"
    drifted = command().model_copy(update={"graceful": False, "predicted": 0.12})
    assert await control.commands() == []
    with temporal.with_time_skipping_disabled():
        async with running(temporal, cluster, steps, drifted) as handle:

            async def waits() -> bool:
                return any("not initialized" in item.waits for item in await control.commands())

            await until(waits)
            (shown,) = await control.commands()
            await handle.cancel()
            await handle.result()
    assert (shown.id, shown.reason, shown.saving) == (drifted.id, camel_case(drifted.reason), 0.12)
    assert shown.nodes == ["default-1", "default-2"]
    assert shown.replacements == [item.name for item in drifted.replacements]
    assert shown.started is not None


async def said(handle: Handle, word: str) -> bool:
    """Whether the timeline of the node has the word."""
    state = await state_of(handle)
    return any(word in entry.text for entry in state.timeline)
