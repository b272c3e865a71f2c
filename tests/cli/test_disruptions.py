"""``tenon disruptions`` against a real Temporal server: commands under way and ended, and one that is cancelled."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from temporalio.common import SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker
from typer.testing import CliRunner, Result

from cli import command_reading
from cli.command_reading import RunningCommands
from cli.main import app
from tenon.evolve import evolve
from tenon.messages.command_steps import CommandProgress, DisruptInput
from tenon.messages.disruption import DisruptionCommand, MeasuredSaving
from tests.cli.fleet_api import serving_fleet, varied_fleet
from tests.workflows.approvable_command import ANN, ASKING, waits
from tests.workflows.fake_steps import FakeSteps, command
from tests.workflows.running_command import Handle
from tests.workflows.waiting import PATIENCE, until
from workflows import names
from workflows.disruption_command import DisruptionCommandWorkflow

pytestmark = pytest.mark.integration
Tenon = Callable[..., Result]


@pytest.fixture
def tenon(temporal: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tenon:
    """Runs ``tenon disruptions``, with no API server at hand."""
    monkeypatch.setattr(command_reading, "QUERY_TIMEOUT", PATIENCE)
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal.client.service_client.config.target_host)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    return lambda *arguments: CliRunner().invoke(app, ["disruptions", *arguments])


@asynccontextmanager
async def running(
    temporal: WorkflowEnvironment, cluster: str, steps: FakeSteps, disruption_command: DisruptionCommand
) -> AsyncIterator[Handle]:
    """A command with the attributes with which the disruption workflow starts it."""
    queue = names.task_queue(cluster)
    common = Worker(temporal.client, task_queue=queue, workflows=[DisruptionCommandWorkflow], activities=steps.common())
    planner = Worker(temporal.client, task_queue=names.plan_queue(cluster), activities=[steps.validate, steps.measure])
    async with common, planner:
        yield await temporal.client.start_workflow(
            DisruptionCommandWorkflow.run,
            DisruptInput(cluster=cluster, command=disruption_command),
            id=names.command_id(cluster, disruption_command.id),
            task_queue=queue,
            search_attributes=TypedSearchAttributes([SearchAttributePair(names.CLUSTER, cluster)]),
        )


async def test_a_command_under_way_says_what_it_waits_for_and_a_cancellation_undoes_it(
    temporal: WorkflowEnvironment, cluster: str, tenon: Tenon
) -> None:
    steps = FakeSteps()
    steps.waits = "default-new is not initialized"
    with temporal.with_time_skipping_disabled():
        async with running(temporal, cluster, steps, evolve(command(), graceful=False, predicted=0.2)) as handle:

            async def waits() -> bool:
                return (await handle.query(DisruptionCommandWorkflow.progress)).waits != ""

            await until(waits)

            async def is_listed() -> bool:
                answer = await asyncio.to_thread(tenon, "--cluster", cluster, "-o", "json")
                return answer.exit_code == 0 and len(json.loads(answer.stdout)) == 1

            await until(is_listed)
            (row,) = json.loads((await asyncio.to_thread(tenon, "--cluster", cluster, "-o", "json")).stdout)
            assert row["nodes"] == ["default-1", "default-2"]
            assert row["replacements"] == [item.name for item in command().replacements]
            assert "default-new is not initialized" in row["waits"]
            assert row["ended"] == ""
            table = (await asyncio.to_thread(tenon, "--cluster", cluster)).stdout
            first, nodes, money, *_ = table.splitlines()
            assert money == "  is to save $0.2000 an hour"
            assert first.startswith(f"{command().id}  {command().reason}  under way for ")
            assert nodes.startswith("  default-1, default-2 -> ")

            arguments = ("cancel", command().id, "--reason", "a release", "--cluster", cluster)
            cancelled = await asyncio.to_thread(tenon, *arguments)
            assert cancelled.exit_code == 0, cancelled.output
            assert cancelled.stdout.startswith(f"{command().id}: an operator cancelled it: a release (")
            assert cancelled.stdout.endswith("with tenon disruptions); what it had begun is undone\n")
            again = await asyncio.to_thread(tenon, *arguments)
            assert (again.exit_code, again.stderr) == (2, f"Command {command().id} has ended already.\n")
            assert [finished.undo for finished in steps.finished] == [True]

            async def has_ended() -> bool:
                answer = await asyncio.to_thread(tenon, "--cluster", cluster, "--all", "-o", "json")
                return [row["step"].startswith("undone: ") for row in json.loads(answer.stdout)] == [True]

            await until(has_ended)
            table = (await asyncio.to_thread(tenon, "--cluster", cluster, "--all")).stdout
            assert "\n  saves nothing; $0.2000 an hour was predicted\n  undone: an operator cancelled it" in table


async def test_an_ended_command_says_what_it_saves(temporal: WorkflowEnvironment, cluster: str, tenon: Tenon) -> None:
    steps = FakeSteps()
    steps.savings = {"default": MeasuredSaving(predicted=0.2, reached=0.1)}
    async with running(temporal, cluster, steps, evolve(command(), predicted=0.2)) as handle:
        await handle.result()

        async def has_ended() -> bool:
            answer = await asyncio.to_thread(tenon, "--cluster", cluster, "--all", "-o", "json")
            rows = json.loads(answer.stdout)
            return len(rows) == 1 and rows[0]["ended"] != ""

        await until(has_ended)
        (row,) = json.loads((await asyncio.to_thread(tenon, "--cluster", cluster, "--all", "-o", "json")).stdout)
        assert (row["savingReached"], row["step"]) == (0.1, "2 nodes left")
        table = (await asyncio.to_thread(tenon, "--cluster", cluster, "--all")).stdout
        assert table.splitlines()[2:] == ["  saves $0.1000 an hour; $0.2000 an hour was predicted", "  2 nodes left"]
        only_open = await asyncio.to_thread(tenon, "--cluster", cluster)
        assert only_open.stderr.endswith("No disruption command is under way.\n")


async def test_an_unknown_command_cannot_be_cancelled(cluster: str, tenon: Tenon) -> None:
    answer = await asyncio.to_thread(tenon, "cancel", "nope", "--cluster", cluster)
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert answer.stderr == "No command nope exists: `tenon disruptions --all` shows the last ones.\n"


async def test_without_temporal_the_nodeclaims_say_what_is_under_way(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CLUSTER_NAME", raising=False)
    with serving_fleet(varied_fleet(), tmp_path) as kubeconfig:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        answer = await asyncio.to_thread(CliRunner().invoke, app, ["disruptions", "-o", "json"])
    assert answer.exit_code == 0, answer.output
    (row,) = json.loads(answer.stdout)
    assert (row["command"], row["reason"]) == ("underutilized-7f3a", "Underutilized")
    assert row["nodes"] == ["ip-10-0-1-4.eu-central-1.compute.internal"]
    assert answer.stderr.startswith("From NodeClaims alone, without steps and ended commands: ")


async def test_a_temporal_that_refuses_is_done_without(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def refuses(_cluster: object) -> Any:
        raise RPCError("Namespace nope is not found", RPCStatusCode.NOT_FOUND, b"")

    monkeypatch.setattr("cli.disruptions.connected", refuses)
    with serving_fleet(varied_fleet(), tmp_path) as kubeconfig:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        answer = await asyncio.to_thread(CliRunner().invoke, app, ["disruptions", "-o", "json"])
    assert [row["command"] for row in json.loads(answer.stdout)] == ["underutilized-7f3a"]
    assert answer.stderr == (
        "From NodeClaims alone, without steps and ended commands: Temporal refused: Namespace nope is not found.\n"
    )
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    neither = await asyncio.to_thread(CliRunner().invoke, app, ["disruptions"])
    assert (neither.exit_code, neither.stdout) == (2, "")
    kubernetes, temporal = neither.stderr.splitlines()
    assert kubernetes.startswith("The Kubernetes client cannot be configured: ")
    assert temporal == "Temporal refused: Namespace nope is not found."


async def test_a_command_that_cannot_be_read_hides_no_other_one(temporal: WorkflowEnvironment, cluster: str) -> None:
    """Its input may be encrypted, or of another version."""
    await temporal.client.start_workflow(
        "DisruptionCommand",
        {"command": "of another version"},
        id=names.command_id(cluster, "empty-1"),
        task_queue=names.task_queue(cluster),
        search_attributes=TypedSearchAttributes([SearchAttributePair(names.CLUSTER, cluster)]),
    )
    running_commands = RunningCommands()

    async def is_listed() -> bool:
        return [view.step for view in await running_commands.read(temporal.client, cluster)] == ["unreadable"]

    await until(is_listed)


async def test_a_list_that_is_read_again_asks_only_the_commands_that_wait_for_a_person(
    temporal: WorkflowEnvironment, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_ids: list[str] = []
    progress = command_reading._progress

    async def counted(handle: Any) -> CommandProgress:
        asked_ids.append(handle.id)
        return await progress(handle)

    monkeypatch.setattr(command_reading, "_progress", counted)
    monkeypatch.setattr(command_reading, "QUERY_TIMEOUT", PATIENCE)
    running_commands, steps = RunningCommands(), FakeSteps()
    steps.waits = "default-new is not initialized"

    async def waiting() -> list[str]:
        return [view.id for view in await running_commands.awaiting_approval(temporal.client, cluster)]

    with temporal.with_time_skipping_disabled():
        async with running(temporal, cluster, steps, ASKING) as handle:
            await waits(handle)
            await temporal.client.start_workflow(
                "DisruptionCommand",
                DisruptInput(cluster=cluster, command=evolve(command(), id="empty-1")),
                id=names.command_id(cluster, "empty-1"),
                task_queue=names.task_queue(cluster),
                search_attributes=TypedSearchAttributes([SearchAttributePair(names.CLUSTER, cluster)]),
            )

            async def both_are_listed() -> bool:
                return len(await running_commands.read(temporal.client, cluster)) == 2

            await until(both_are_listed)
            asked_ids.clear()
            assert [await waiting(), await waiting()] == [[ASKING.id], [ASKING.id]]
            assert asked_ids == [handle.id] * 2, "the other one asks nobody"
            await handle.execute_update(DisruptionCommandWorkflow.approve, ANN)
            asked_ids.clear()
            assert [await waiting(), await waiting()] == [[], []]
            assert asked_ids == [handle.id]
