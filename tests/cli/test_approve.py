"""``tenon approve`` and ``tenon refuse`` against a real Temporal server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from temporalio.testing import WorkflowEnvironment
from typer.testing import CliRunner, Result

from cli import command_reading
from cli.approve import command_ids
from cli.main import app
from tenon.evolve import evolve
from tenon.messages.command_approval import ApprovalAnswer
from tests.cli.test_disruptions import running
from tests.workflows.approvable_command import ASKING, waits
from tests.workflows.fake_steps import FakeSteps
from tests.workflows.waiting import PATIENCE, until

pytestmark = pytest.mark.integration
Tenon = Callable[..., Result]


@pytest.fixture
def tenon(temporal: WorkflowEnvironment, cluster: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tenon:
    monkeypatch.setattr(command_reading, "QUERY_TIMEOUT", PATIENCE)
    monkeypatch.setattr("cli.approve.COMPLETED_WITHIN", PATIENCE.total_seconds())
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal.client.service_client.config.target_host)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("CLUSTER_NAME", cluster)
    return lambda *arguments: CliRunner().invoke(app, [*arguments])


async def test_a_listed_command_is_approved_by_its_id_and_takes_no_second_answer(
    temporal: WorkflowEnvironment, cluster: str, tenon: Tenon
) -> None:
    with temporal.with_time_skipping_disabled():
        async with running(temporal, cluster, FakeSteps(), ASKING) as handle:
            await waits(handle)

            async def is_listed() -> bool:
                answer = await asyncio.to_thread(tenon, "disruptions", "-o", "json")
                return answer.exit_code == 0 and len(json.loads(answer.stdout)) == 1

            await until(is_listed)
            (row,) = json.loads((await asyncio.to_thread(tenon, "disruptions", "-o", "json")).stdout)
            assert row["waits"].endswith(
                "UTC: tenon approve underutilized-1, or tenon refuse underutilized-1; it is validated again then"
            )
            assert await asyncio.to_thread(command_ids, "under") == ["underutilized-1"]
            answer = await asyncio.to_thread(
                tenon, "approve", "underutilized-1", "nothing-1", "--by", "ann", "--reason", "seen in staging"
            )
            assert answer.stdout == (
                "underutilized-1: approved. It is validated again first, and ends without touching anything if it does "
                "not hold any more.\n"
            )
            assert answer.exit_code == 2
            assert answer.stderr == ("No command nothing-1 is under way: `tenon disruptions` shows those that wait.\n")
            result = await handle.result()
    assert result.approval is not None
    assert (result.approval.by, result.approval.reason) == ("ann", "seen in staging")


async def test_a_command_is_refused_for_a_time(temporal: WorkflowEnvironment, cluster: str, tenon: Tenon) -> None:
    refused_command = evolve(ASKING, id="underutilized-9")
    with temporal.with_time_skipping_disabled():
        async with running(temporal, cluster, FakeSteps(), refused_command) as handle:
            await waits(handle)
            too_long = await asyncio.to_thread(tenon, "refuse", "underutilized-9", "--for", "1000h", "--reason", "no")
            assert too_long.exit_code == 2
            assert "hours is 1000: write a number above 0, and up to 720." in too_long.stderr
            answer = await asyncio.to_thread(tenon, "refuse", "underutilized-9", "--for", "72h", "--reason", "no")
            assert (answer.exit_code, answer.stdout) == (0, "underutilized-9: refused\n")
            result = await handle.result()
    assert result.approval is not None
    assert result.approval.answer is ApprovalAnswer.REFUSED
    assert result.approval.by.endswith(" with tenon refuse")


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (("approve", "empty-1"), "the timeline of the command"),
        (("refuse", "empty-1"), "the timeline of the command"),
        (("disruptions", "cancel", "empty-1"), "the timeline of the command"),
        (("node", "keep", "default-x1"), "the timeline of the node"),
    ],
)
def test_a_terminal_is_asked_for_the_reason_with_where_people_read_it(
    arguments: tuple[str, ...], place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("cli.nodes.requests.is_interactive", lambda: True)
    monkeypatch.setenv("TENON_SANDBOX_DIR", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("CLUSTER_NAME", raising=False)
    result = CliRunner().invoke(app, arguments, input="release\n")
    assert f"Why (for {place}): " in result.stdout
    assert result.stderr.startswith("Which cluster? ")


async def test_a_command_is_refused_for_days(temporal: WorkflowEnvironment, cluster: str, tenon: Tenon) -> None:
    answer = await asyncio.to_thread(tenon, "refuse", "nothing-1", "--for", "2d", "--reason", "no")
    assert answer.stderr == "No command nothing-1 is under way: `tenon disruptions` shows those that wait.\n"
