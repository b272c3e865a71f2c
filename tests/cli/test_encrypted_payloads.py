"""What commands say in a shell without the keys, if the payloads in Temporal are encrypted."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio import workflow
from temporalio.client import Client
from temporalio.common import SearchAttributePair, TypedSearchAttributes
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner, Worker
from typer.testing import CliRunner, Result

from cli.fleet_view.workflow_control import ControlError, WorkflowControl
from cli.main import app
from tenon.messages.command_steps import DisruptInput
from tests.workflows.fake_steps import command
from tests.workflows.waiting import PATIENCE, until
from worker.runtime.temporal.payload_codec import EncryptionCodec
from worker.runtime.temporal.teardown_worker import teardown_queue
from worker.runtime.temporal.temporal_plugin import TenonPlugin
from workflows import names

pytestmark = pytest.mark.integration
Tenon = Callable[..., Result]
NAME = "default-x1"
WHY = "This payload in Temporal is encrypted with the key old: set PAYLOAD_ENCRYPTION_CONFIG to the file of the keys"


@workflow.defn(name="NodeClaim")
class _Node:
    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: False)

    @workflow.query(name="status")
    def status(self) -> str:
        return "encrypted"


@workflow.defn(name="Teardown")
class _Teardown:
    @workflow.run
    async def run(self, _: object) -> str:
        return "encrypted"


@pytest.fixture
def tenon(temporal: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tenon:
    """Runs the command without keys, with no API server at hand."""
    monkeypatch.setattr("cli.nodes.listing.QUERY_TIMEOUT", PATIENCE)
    monkeypatch.setattr("cli.fleet_view.workflow_control.ANSWER_SECONDS", PATIENCE.total_seconds())
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal.client.service_client.config.target_host)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("COLUMNS", "400")
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


@pytest_asyncio.fixture
async def with_keys(temporal: WorkflowEnvironment, tmp_path: Path) -> Client:
    """The client of a worker, which encrypts."""
    file = tmp_path / "keys.yaml"
    file.write_text(json.dumps({"keys": [{"name": "old", "secret": base64.b64encode(b"-" * 32).decode()}]}))
    address = temporal.client.service_client.config.target_host
    return await Client.connect(address, plugins=[TenonPlugin(codec=EncryptionCodec(file))])


@pytest_asyncio.fixture
async def blocked_node(temporal: WorkflowEnvironment, with_keys: Client, cluster: str) -> AsyncIterator[None]:
    """A blocked node of which Temporal's list knows."""
    queue = names.task_queue(cluster)
    attributes: list[SearchAttributePair[Any]] = [
        SearchAttributePair(names.CLUSTER, cluster),
        SearchAttributePair(names.BLOCKED, value=True),
    ]
    async with Worker(with_keys, task_queue=queue, workflows=[_Node], workflow_runner=UnsandboxedWorkflowRunner()):
        with temporal.with_time_skipping_disabled():
            handle = await with_keys.start_workflow(
                _Node.run,
                id=names.nodeclaim_id(cluster, NAME),
                task_queue=queue,
                search_attributes=TypedSearchAttributes(attributes),
            )

            async def is_listed() -> bool:
                query = names.blocked_nodeclaims_query(cluster)
                return [run.id async for run in with_keys.list_workflows(query)] == [handle.id]

            await until(is_listed)
            yield
            await handle.terminate()


@pytest.mark.usefixtures("blocked_node")
@pytest.mark.parametrize("options", [(), ("--blocked",)])
async def test_a_list_of_nodes_has_all_and_says_what_cannot_be_read(
    tenon: Tenon, cluster: str, options: tuple[str, ...]
) -> None:
    answer = await asyncio.to_thread(tenon, "node", "list", "--cluster", cluster, *options)
    assert answer.exit_code == 0, answer.output
    assert NAME in answer.stdout
    assert f"{NAME} does not say what blocks it: {WHY}." in answer.stderr


@pytest.mark.usefixtures("blocked_node", "tenon")
async def test_top_and_report_say_that_a_node_cannot_be_read(cluster: str) -> None:
    control = WorkflowControl(cluster)
    for question in (control.details, control.remedies):
        with pytest.raises(ControlError, match=f"^The answer of {NAME} cannot be read: {WHY}$"):
            await question(NAME)


async def test_a_command_that_cannot_be_read_is_listed_with_the_others(
    temporal: WorkflowEnvironment, with_keys: Client, tenon: Tenon, cluster: str
) -> None:
    """Its input is encrypted, or of another version."""
    of_another_version = {"command": "of another version"}
    for client, ident, begin in (
        (with_keys, "empty-1", DisruptInput(cluster=cluster, command=command())),
        (temporal.client, "empty-2", of_another_version),
        (temporal.client, command().id, DisruptInput(cluster=cluster, command=command())),
    ):
        await client.start_workflow(
            "DisruptionCommand",
            begin,
            id=names.command_id(cluster, ident),
            task_queue=names.task_queue(cluster),
            search_attributes=TypedSearchAttributes([SearchAttributePair(names.CLUSTER, cluster)]),
        )

    async def all_are_listed() -> bool:
        answer = await asyncio.to_thread(tenon, "disruptions", "--cluster", cluster, "-o", "json")
        assert answer.exit_code == 0, answer.output
        rows = json.loads(answer.stdout)
        steps = {row["command"]: row["step"] for row in rows}
        return steps == {"empty-1": "unreadable", "empty-2": "unreadable", command().id: ""}

    await until(all_are_listed)


async def test_a_teardown_that_cannot_be_read_is_a_sentence(with_keys: Client, tenon: Tenon, cluster: str) -> None:
    queue = teardown_queue(cluster)
    async with Worker(with_keys, task_queue=queue, workflows=[_Teardown], workflow_runner=UnsandboxedWorkflowRunner()):
        answer = await asyncio.to_thread(tenon, "teardown", cluster, "--dry-run")
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert answer.stderr.splitlines()[-1] == f"{WHY}."
