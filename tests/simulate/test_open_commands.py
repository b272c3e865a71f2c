"""``tenon simulate --live --disruption`` and ``tenon explain node`` know the commands that are under way or wait."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from temporalio import activity
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from tenon.apis.hashing import nodepool_hashes
from tenon.apis.nodepool import NodePool
from tenon.messages.base import ActivityName
from tenon.messages.disruption import AwaitDisruptionInput, DisruptionDecision, OpenCommand
from tests.simulate.api_server import api_server
from tests.simulate.running import catalogue, command
from tests.simulate.test_disruption import WHEN_EMPTY, claimed
from tests.workflows.waiting import PATIENCE
from workflows import names
from workflows.disruption import DisruptionInput, DisruptionWorkflow

pytestmark = pytest.mark.integration

PLURALS = {"NodePool": "nodepools", "NodeClaim": "nodeclaims", "Node": "nodes", "Pod": "pods"}


@activity.defn(name=ActivityName.AWAIT_DISRUPTION)
async def nothing_to_disrupt(_: AwaitDisruptionInput) -> DisruptionDecision:
    """A pass that takes longer than the test."""
    await asyncio.Event().wait()
    return DisruptionDecision()


async def test_a_node_whose_command_waits_for_approval_stays_and_says_so(
    temporal: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster, now = "asks", datetime.now(UTC)
    monkeypatch.setenv("CLUSTER_NAME", cluster)
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal.client.service_client.config.target_host)
    hashes = nodepool_hashes(NodePool.model_validate(yaml.safe_load(WHEN_EMPTY)))
    objects: dict[str, list[Any]] = {}
    for body in yaml.safe_load_all(WHEN_EMPTY + claimed(hashes, drifted="AMIDrift")):
        objects.setdefault(PLURALS[body["kind"]], []).append(body)
    waiting = OpenCommand(
        command="drifted-1",
        reason="Drifted",
        pool="default",
        since=now,
        until=now + timedelta(days=1),
        awaits_approval=True,
    )
    queue = names.task_queue(cluster)

    def explained() -> str:
        answer = command("--live", "--node", "n1", "--catalog", str(catalogue(tmp_path)))
        assert answer.status == 0, answer.err
        return answer.out + answer.err

    monkeypatch.setattr("cli.simulating.open_commands.ANSWERS_WITHIN", PATIENCE)
    with api_server(tmp_path, monkeypatch) as server:
        server.objects = objects
        assert "waits for approval" not in await asyncio.to_thread(explained)
        async with (
            Worker(temporal.client, task_queue=queue, workflows=[DisruptionWorkflow]),
            Worker(temporal.client, task_queue=names.plan_queue(cluster), activities=[nothing_to_disrupt]),
        ):
            handle = await temporal.client.start_workflow(
                DisruptionWorkflow.run,
                DisruptionInput(cluster=cluster, ledger={"c1": waiting}),
                id=names.disruption_id(cluster),
                task_queue=queue,
            )
            explanation = await asyncio.to_thread(explained)
            await handle.terminate()
    assert "waits for approval since" in explanation
    assert "`tenon approve drifted-1`" in explanation


async def test_a_node_takes_no_pods_of_a_command_whose_nodes_are_gone(
    temporal: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The workflow lists the command until the planner answers, which may be long after."""
    cluster, now = "moved", datetime.now(UTC)
    monkeypatch.setenv("CLUSTER_NAME", cluster)
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal.client.service_client.config.target_host)
    hashes = nodepool_hashes(NodePool.model_validate(yaml.safe_load(WHEN_EMPTY)))
    objects: dict[str, list[Any]] = {}
    for body in yaml.safe_load_all(WHEN_EMPTY + claimed(hashes)):
        objects.setdefault(PLURALS[body["kind"]], []).append(body)
    moved = OpenCommand(
        command="underutilized-1",
        reason="Underutilized",
        pool="default",
        since=now - timedelta(minutes=13),
        until=now + timedelta(hours=1),
        hosts=["c1"],
    )
    queue = names.task_queue(cluster)

    def explained() -> str:
        answer = command("--live", "--node", "n1", "--catalog", str(catalogue(tmp_path)))
        assert answer.status == 0, answer.err
        return answer.out

    monkeypatch.setattr("cli.simulating.open_commands.ANSWERS_WITHIN", PATIENCE)
    with api_server(tmp_path, monkeypatch) as server:
        server.objects = objects
        async with (
            Worker(temporal.client, task_queue=queue, workflows=[DisruptionWorkflow]),
            Worker(temporal.client, task_queue=names.plan_queue(cluster), activities=[nothing_to_disrupt]),
        ):
            handle = await temporal.client.start_workflow(
                DisruptionWorkflow.run,
                DisruptionInput(cluster=cluster, ledger={"gone": moved}),
                id=names.disruption_id(cluster),
                task_queue=queue,
            )
            explanation = await asyncio.to_thread(explained)
            await handle.terminate()
    assert "are expected to run on it" not in explanation
