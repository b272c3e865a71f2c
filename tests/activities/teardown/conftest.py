"""The sandbox's EC2, and the command with credentials of the worker's role of the cluster that ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from temporalio.testing import WorkflowEnvironment
from typer.testing import CliRunner, Result

from cli.main import app
from sandbox.ec2.authorization.identities import environment, worker_key
from sandbox.ec2.consistency import AT_ONCE, Delays
from tenon.teardown import rounds
from tests.activities.teardown.account import REGION, Account
from tests.ec2.conftest import Administrator, _undo_injections, admin, describes_at_once, few_types, server

if TYPE_CHECKING:
    from sandbox.ec2.server import Server

__all__ = ["_undo_injections", "admin", "describes_at_once", "few_types", "server"]
Tenon = Callable[..., Awaitable[Result]]


@pytest.fixture(scope="module")
def delays() -> Delays:
    return AT_ONCE


@pytest.fixture
def account(admin: Administrator) -> Account:
    return Account(admin)


@pytest.fixture
def tenon(
    temporal: WorkflowEnvironment,
    cluster: str,
    server: Server,
    describes_at_once: None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Tenon:
    """Runs ``tenon teardown`` with the rights of the cluster's worker, and no API server at hand."""
    # EC2 shows all at once here, and the server's time is real for a client of another process.
    monkeypatch.setattr(rounds, "SETTLE", timedelta(seconds=1))
    monkeypatch.setattr(rounds, "FIRST_PAUSE", timedelta(seconds=0.2))
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal.client.service_client.config.target_host)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_REGION", REGION)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
    monkeypatch.delenv("CLUSTER_NAME", raising=False)
    for name, value in environment(worker_key(cluster)).items():
        monkeypatch.setenv(name, value)

    async def run(*arguments: str) -> Result:
        return await asyncio.to_thread(CliRunner().invoke, app, ["teardown", *arguments])

    return run
