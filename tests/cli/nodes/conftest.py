"""What the tests of ``tenon node`` share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.testing import WorkflowEnvironment
from typer.testing import CliRunner

from cli.node import app
from tests.cli.nodes.blocked_node import Tenon, blocked, listed
from tests.workflows.guarded_node import Guarded
from tests.workflows.waiting import until
from workflows.nodeclaim import NodeClaimWorkflow


@pytest.fixture
def tenon(temporal: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tenon:
    """Runs ``tenon node``, with no API server at hand."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal.client.service_client.config.target_host)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


@pytest_asyncio.fixture
async def world(temporal: WorkflowEnvironment, cluster: str) -> AsyncIterator[Guarded]:
    """A node whose drain is blocked by a budget, with two days of grace."""
    guarded = Guarded(grace=timedelta(days=2))
    async with listed(temporal, cluster, guarded) as handle:
        await handle.signal(NodeClaimWorkflow.drain)
        await until(lambda: blocked(temporal.client, cluster))
        yield guarded
