"""``tenon node list`` counts what ``tenon top`` counts, also while Temporal has workflows without a NodeClaim."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from temporalio.testing import WorkflowEnvironment
from typer.testing import CliRunner

from cli.main import app
from tests.cli.fleet_api import serving_fleet, varied_fleet
from tests.cli.nodes.blocked_node import NAME, listed
from tests.workflows.guarded_node import Guarded
from tests.workflows.waiting import until

pytestmark = pytest.mark.integration


def figures(output: str) -> list[str]:
    """The nodes, pods and dollars of a list, without what commands add."""
    (line,) = [line for line in output.splitlines() if line.startswith("9 nodes ")]
    return line.replace("  4 pending", "").split("  ")


async def test_a_workflow_whose_nodeclaim_is_gone_is_listed_and_not_counted(
    temporal: WorkflowEnvironment, cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal.client.service_client.config.target_host)
    monkeypatch.setenv("COLUMNS", "250")
    with serving_fleet(varied_fleet(), tmp_path) as kubeconfig:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        async with listed(temporal, cluster, Guarded()):

            def run(*command: str) -> str:
                result = CliRunner().invoke(app, [*command, "--cluster", cluster])
                assert result.exit_code == 0, result.output
                return result.stdout

            async def is_listed() -> bool:
                """Temporal lists workflows a moment after their start."""
                return f" {NAME} " in await asyncio.to_thread(run, "node", "list")

            await until(is_listed)
            nodes = await asyncio.to_thread(run, "node", "list")
            top = await asyncio.to_thread(run, "top", "--once", "--no-aws")
    assert figures(nodes) == figures(top)
    assert "not counted: 1 NodeClaim without an instance, 1 node whose NodeClaim is gone" in nodes
